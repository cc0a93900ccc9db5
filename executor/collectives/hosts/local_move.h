// Operations of a member of a group on the tensors of its own host: it copies, or reduces, the
// parts for it, and zeroes the padding of its own tensor.
//
// Threads: the member's device. Ownership: nothing is kept.
// Cost: each byte for the member is read once; in a reduction, once of each member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/collectives/block.h"
#include "executor/collectives/collective_call.h"

namespace gangway {

// The members of one host, by index.
struct HostMembers {
  std::vector<uint32_t> ranks;
  std::vector<const CollectiveCall*> calls;
  std::vector<const std::byte*> in;  // Their tensors, or copies.
};

// Copies into the tensor of member `self`. Returns the bytes that were read from other members.
int64_t take_from_host(const HostMembers& members, uint32_t self, uint32_t group_size);
// The same for a reduce-scatter whose members are all on this host.
int64_t reduce_own_part(const HostMembers& members, uint32_t self, uint32_t group_size);

// Zeroes the padding of a tensor that is written in parts; called before any member writes there.
void zero_padding(const CollectiveCall& call, uint32_t rank);
// Zeroes the space behind the rows that come; called once their number is known.
void zero_behind_rows(const CollectiveCall& call, uint32_t group_size);

// Writes bytes [begin, end) of the block, which are contiguous in `from`, to their offsets in
// `out`.
void scatter_into(const Block& block, int64_t begin, int64_t end, const std::byte* from,
                  std::byte* out);

}  // namespace gangway
