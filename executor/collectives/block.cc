#include "executor/collectives/block.h"

#include "runtime/base/error.h"

namespace gangway {
namespace {

using Extents = std::array<int64_t, 5>;

// Rows of part `index`, if parts of `part` rows make `whole`.
int64_t rows_of_part(int64_t whole, int64_t part, uint32_t index) {
  return std::clamp<int64_t>(whole - part * index, 0, part);
}

Extents steps_of(const Extents& dims, int64_t size) {
  Extents steps{};
  for (size_t d = 5; d-- > 0; size *= dims[d]) steps[d] = size;
  return steps;
}

// A box with `rows` rows of each dimension; rows that are adjacent are joined.
Block box(const Extents& rows, const Extents& in_steps, const Extents& out_steps) {
  Block block;
  block.run = rows[4] * in_steps[4];
  size_t apart = 4;
  while (apart > 0 && block.run == in_steps[apart - 1] && block.run == out_steps[apart - 1])
    block.run *= rows[--apart];
  for (size_t d = 0; d < apart; ++d) {
    block.count[d] = rows[d];
    block.in_step[d] = in_steps[d];
    block.out_step[d] = out_steps[d];
  }
  return block;
}

// Whether only the outermost dimension is cut, so that parts are contiguous.
bool lies_together(const CollectiveCut& cut) {
  constexpr int kInner = 3;
  return cut.dims[0] == 1 && cut.split != kInner && cut.concat != kInner;
}

Block block_together(const CollectiveCut& cut, int64_t size, uint32_t from, uint32_t to) {
  const int64_t row = cut.dims[2] * cut.dims[3] * cut.dims[4] * size;
  int64_t rows = cut.dims[1], part = rows;
  Block block;
  if (cut.split != CollectiveCut::kNotCut) {
    part = cut.part;
    rows = rows_of_part(cut.dims[1], part, to);
    block.in_begin = part * to * row;
  }
  if (cut.concat != CollectiveCut::kNotCut) {
    rows = std::min(rows, rows_of_part(cut.whole, part, from));
    block.out_begin = part * from * row;
  }
  block.run = rows * row;
  return block;
}

Block cut_block(const CollectiveCall& call, uint32_t from, uint32_t to) {
  const CollectiveCut& cut = call.cut;
  const auto size = static_cast<int64_t>(size_of(call.tensors[0].dtype));
  if (lies_together(cut)) return block_together(cut, size, from, to);
  const auto split = static_cast<size_t>(cut.split), concat = static_cast<size_t>(cut.concat);
  Extents rows = cut.dims, out = cut.dims;
  if (cut.split != CollectiveCut::kNotCut) {
    rows[split] = rows_of_part(cut.dims[split], cut.part, to);
    out[split] = cut.part;
  }
  const int64_t part = cut.concat == CollectiveCut::kNotCut ? 0 : out[concat];
  if (cut.concat != CollectiveCut::kNotCut) {
    rows[concat] = std::min(rows[concat], rows_of_part(cut.whole, part, from));
    out[concat] = cut.whole;
  }
  const Extents in_steps = steps_of(cut.dims, size), out_steps = steps_of(out, size);
  Block block = box(rows, in_steps, out_steps);
  if (cut.split != CollectiveCut::kNotCut) block.in_begin = cut.part * to * in_steps[split];
  if (cut.concat != CollectiveCut::kNotCut) block.out_begin = part * from * out_steps[concat];
  return block;
}

Block ragged_block(const CollectiveCall* sender, const CollectiveCall* receiver, uint32_t from,
                   uint32_t to) {
  const CollectiveCall& known = sender == nullptr ? *receiver : *sender;
  const int64_t row =
      known.ragged.row_elements * static_cast<int64_t>(size_of(known.tensors[0].dtype));
  Block block;
  if (sender != nullptr) {
    for (uint32_t j = 0; j < to; ++j) block.in_begin += sender->ragged.sizes[j] * row;
    block.run = sender->ragged.sizes[to] * row;
  }
  if (receiver != nullptr) {
    for (uint32_t i = 0; i < from; ++i) block.out_begin += receiver->ragged.received[i] * row;
    block.run = receiver->ragged.received[from] * row;
    block.out_end = receiver->ragged.bound * row;
  }
  return block;
}

}  // namespace

Block block_of(const CollectiveCall* sender, const CollectiveCall* receiver, uint32_t members,
               uint32_t from, uint32_t to) {
  GW_DASSERT(from < members && to < members);
  const CollectiveCall& known = sender == nullptr ? *receiver : *sender;
  bool gives = true;
  switch (known.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll: return cut_block(known, from, to);
    case CollectiveKind::kRaggedAllToAll: return ragged_block(sender, receiver, from, to);
    case CollectiveKind::kPermute: gives = known.to[from] == to; break;
    case CollectiveKind::kBroadcast: gives = known.root == from; break;
    case CollectiveKind::kAllReduce: break;
  }
  Block whole;
  whole.run = gives ? in_bytes(known) : 0;
  return whole;
}

}  // namespace gangway
