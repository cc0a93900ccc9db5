#include "executor/collectives/hosts/local_move.h"

#include <algorithm>
#include <cstring>

#include "executor/collectives/hosts/rank_tree.h"

namespace gangway {
namespace {

std::byte* out_of(const CollectiveCall& call) {
  return static_cast<std::byte*>(call.tensors[0].out);
}

// The number of the `bytes` bytes at `at` that are before `end`.
int64_t kept(int64_t at, int64_t bytes, int64_t end) {
  return std::clamp<int64_t>(end - at, 0, bytes);
}

void copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

int64_t take_from_host(const HostMembers& members, uint32_t self, uint32_t group_size) {
  const CollectiveCall& mine = *members.calls[self];
  std::byte* const out = out_of(mine);
  int64_t others = 0;
  for (uint32_t m = 0; m < members.ranks.size(); ++m) {
    const Block block =
        block_of(members.calls[m], &mine, group_size, members.ranks[m], members.ranks[self]);
    for_each_run(block, 0, block.bytes(), [&](int64_t from, int64_t to, int64_t n) {
      copy(out + to, members.in[m] + from, kept(to, n, block.out_end));
    });
    if (m != self) others += block.bytes();
  }
  return others;
}

int64_t reduce_own_part(const HostMembers& members, uint32_t self, uint32_t group_size) {
  const CollectiveCall& mine = *members.calls[self];
  const DType dtype = mine.tensors[0].dtype;
  const Block block = block_of(&mine, &mine, group_size, 0, members.ranks[self]);
  std::vector<const std::byte*> sources(members.ranks.size());
  for_each_run(block, 0, block.bytes(), [&](int64_t from, int64_t to, int64_t n) {
    for (size_t m = 0; m < sources.size(); ++m) sources[m] = members.in[m] + from;
    std::byte* out = out_of(mine) + to;
    reduce_ranks(dtype, mine.reduction, sources, {&out, 1},
                 n / static_cast<int64_t>(size_of(dtype)));
  });
  return block.bytes() * static_cast<int64_t>(sources.size() - 1);
}

void zero_padding(const CollectiveCall& call, uint32_t rank) {
  if (has_padding(call, rank)) std::memset(out_of(call), 0, static_cast<size_t>(out_bytes(call)));
}

void zero_behind_rows(const CollectiveCall& call, uint32_t group_size) {
  const RaggedRows& ragged = call.ragged;
  const int64_t row = ragged.row_elements * static_cast<int64_t>(size_of(call.tensors[0].dtype));
  int64_t rows = 0;
  for (uint32_t m = 0; m < group_size; ++m) rows += ragged.received[m];
  rows = std::min(rows, ragged.bound);
  if (rows < ragged.bound)
    std::memset(out_of(call) + rows * row, 0, static_cast<size_t>((ragged.bound - rows) * row));
}

void scatter_into(const Block& block, int64_t begin, int64_t end, const std::byte* from,
                  std::byte* out) {
  for_each_run(block, begin, end, [&](int64_t, int64_t to, int64_t n) {
    copy(out + to, from, kept(to, n, block.out_end));
    from += n;
  });
}

}  // namespace gangway
