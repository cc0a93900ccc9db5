// What a member of a group does with the tensors of its own host: it copies, or reduces, what is
// for it, and zeroes the padding of its own.
//
// Threads: the member's device. Ownership: nothing is kept.
// Cost: each byte that is for the member is read once, of a reduction once of each member.
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

// Into the tensor of member `self` of them. Returns the bytes that were read of other members'.
int64_t take_from_host(const HostMembers& members, uint32_t self, uint32_t group_size);
// The same of a reduce-scatter whose members all are of this host.
int64_t reduce_own_part(const HostMembers& members, uint32_t self, uint32_t group_size);

// Of what is written in parts: before anybody writes there.
void zero_padding(const CollectiveCall& call, uint32_t rank);
// Behind the rows that come: once it is known how many.
void zero_behind_rows(const CollectiveCall& call, uint32_t group_size);

// Writes bytes [begin, end) of the block, which lie together in `from`, to where they are in `out`.
void scatter_into(const Block& block, int64_t begin, int64_t end, const std::byte* from,
                  std::byte* out);

}  // namespace gangway
