// The form of a fused chain that the interpreter runs: the program with types resolved and values
// given slots in cache.
//
// A value lives in a slot of `chunk` elements of 4 or 8 bytes: f32 (bf16 too), i32 and bool (0 or
// 1) take 4, f64 8. Slots are reused once a value is dead, and all of them together fit
// kFusedSlotBytes, so that they stay in the L1 cache. Plain data: it is read by code compiled for
// several instruction sets.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/kernels/fused.h"

namespace gangway::simd {

constexpr int64_t kFusedSlotBytes = 24 * 1024;
// Chunks are multiples of it: a multiple of every vector's lanes.
constexpr int64_t kFusedQuantum = 64;
constexpr int kFusedValuesMax = 256;

enum class FusedClass : uint8_t { kFloat, kDouble, kInt };  // How a value is held and computed.

struct FusedLoad {
  DType dtype;
  FusedInput::Kind kind;
  int32_t input, slot;
};
struct FusedStep {
  FusedOp op;
  FusedClass from, to;  // Classes of operands (of the last one for select) and result.
  DType dtype;          // Type of the result.
  int32_t in[3];        // Values.
  int32_t value, slot;
  double immediate;
};
struct FusedStore {
  DType dtype;
  int32_t value, output;
  bool rounded;  // The value is of this type already.
};

struct FusedPlan {
  std::vector<FusedLoad> loads;
  std::vector<FusedStep> constants, steps;
  std::vector<FusedStore> stores;
  int64_t chunk = 0, slot_bytes = 0;
  bool rows = false;  // Some input is kInner or kOuter.
};

// The cut of [outer, inner] into units of at most a chunk: part of one row, or several whole rows.
struct FusedSpace {
  int64_t outer, inner;
  int64_t unit_rows, unit_cols;  // unit_rows > 1 only with unit_cols == inner.
  int64_t units_across;          // Units in one row (of several rows).
  bool native = false;           // The machine rounds to bf16.
};

}  // namespace gangway::simd
