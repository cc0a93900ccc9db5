// Shape ops as strided copies (executor/kernels/move.h).
//
// Threads: pure.
#pragma once

#include <vector>

#include "executor/devices/lower/node_view.h"
#include "executor/kernels/move.h"
#include "ir/types/type.h"

namespace gangway {

// Dimension i of x[from] becomes dimension map[i] of the result; sizes of 1 stretch.
StridedCopy broadcast_copy(const Type& from, const Type& to, const std::vector<int64_t>& map);

// A copy from a window of one tensor to a window of another.
struct WindowCopy {
  StridedCopy copy;
  int64_t src_bytes = 0, dst_bytes = 0;  // Offsets of the windows.
};
inline bool is_view(Op op) { return op == Op::broadcast || op == Op::transpose || op == Op::slice; }
WindowCopy plain_move(const NodeView& node);                  // For a view.
std::vector<WindowCopy> concat_copies(const NodeView& node);  // One for each operand.
// Copies the operand to its part of the result. Negative low and high crop, as in StableHLO.
WindowCopy pad_copy(const NodeView& node);

// dynamic_slice, dynamic_update: the window starts where the run-time scalar says, clamped to
// [0, last], each `step` elements of the larger tensor.
struct MovingCopy {
  StridedCopy copy;
  int64_t last = 0, step = 0;
};
MovingCopy moving_copy(const NodeView& node);

// shard_slice: parts of one size, of which the last ones may have fewer rows of the operand, or
// none.
struct ShardCopy {
  StridedCopy whole;        // Copy of a part that has all its rows.
  StridedCopy rest;         // Copy of the part behind them, which has some.
  int64_t whole_parts = 0;  // Number of parts that have all.
  int64_t rest_rows = 0;
  int64_t step = 0;  // Elements of the operand from one part to the next.
};
ShardCopy shard_copy(const NodeView& node);

}  // namespace gangway
