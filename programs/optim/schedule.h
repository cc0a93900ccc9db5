// Learning rates as part of a training program: ops on a run-time input that counts its steps, so
// that whoever runs the steps, a client or the controller (Executable::repeat), gives that number
// and nothing else.
//
// Each function takes the number of the step, of any float type or i32, as a scalar or a tensor.
// The result has the step's shape and element type, or f32 if that is i32. Functions compute in f64
// and round once, so that a rate in f32 is what a host computes in f64 and rounds.
//
// Threads: they trace on the builder's thread.
// Errors: kInvalid for a schedule with negative counts of steps, and for an empty list or one of
// more than kTableValuesMax values or of values that are not finite.
// Cost: a few scalar ops a step. A table holds its values, 4 to 16 bytes each, on every device, and
// on a GPU takes a launch a step for each of them: keep it short there.
//
// Example:
//   ProgramBuilder b("descent", mesh);
//   Value step = b.input("step", f32());  // Schedule::linear(1, 1) gives 1, 2, 3 ...
//   Value lr = programs::warmup_cosine(step, {.peak = 1e-3, .warmup = 50, .steps = 1000});
//   Value momentum = programs::table(step - 1.0, {0.5, 0.75, 0.9});
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/build/value.h"
#include "runtime/base/loc.h"

namespace gangway::programs {

struct CosineSchedule {
  double peak = 2e-3;
  int64_t warmup = 50;
  int64_t steps = 1000;
  double final_share = 0.1;
};

// A linear warm-up from 0 in step 0 to `peak` in step `warmup`, then half a cosine down to peak *
// final_share in step `steps`, where the rate stays (Loshchilov & Hutter 2017).
Value warmup_cosine(Value step, const CosineSchedule& schedule, Loc loc = Loc::current());

inline constexpr size_t kTableValuesMax = size_t{1} << 16;

// values[step]. Steps below 0 have the first value, and steps behind the last value have that one.
// A fraction of a step is dropped. Values that are below 2^-70 of the largest one are rounded.
Value table(Value step, const std::vector<double>& values, Loc loc = Loc::current());

}  // namespace gangway::programs
