// The C interface of a user's kernels: functions that `custom_call` names (ir/build/custom_call.h).
//
// Why C: a kernel may be built by any compiler, with any flags, and for any number of releases. A
// shared library exports it under its own name, and needs nothing of Gangway but this header.
//
// Shapes: dense, row-major; the result does not share memory with an input.
// Devices: CPU devices alone; a program with a user's kernel is refused on GPUs when it is
// compiled.
// Threads: a device's own thread; devices may call it at the same time.
// Ownership: all of it is the caller's, for the duration of the call.
// Errors: a result other than 0 fails the run; the kernel must not throw, and the same inputs must
// give the same result (a run may be replayed).
//
// Example:
//   int halve(const GangwayKernelCall* call) {
//     const float* x = (const float*)call->inputs[0].data;
//     float* y = (float*)call->result.data;
//     for (int64_t i = 0; i < call->result.elements; ++i) y[i] = x[i] / 2;
//     return 0;
//   }
#pragma once

#include <stdint.h>

// NOLINTBEGIN(modernize-*): C reads this too.
enum {
  kGangwayBool = 0,  // One byte, 0 or 1.
  kGangwayI32 = 1,
  kGangwayBF16 = 2,
  kGangwayF32 = 3,
  kGangwayF64 = 4
};

typedef struct GangwayTensor {
  void* data;  // Inputs are read only.
  const int64_t* dims;
  int64_t rank;
  int64_t elements;  // The product of dims.
  int64_t dtype;     // A kGangway constant from above.
} GangwayTensor;

typedef struct GangwayKernelCall {
  int64_t version;  // 1. Higher versions append fields.
  int64_t input_count;
  const GangwayTensor* inputs;
  GangwayTensor result;
} GangwayKernelCall;

typedef int (*GangwayKernel)(const GangwayKernelCall* call);
// NOLINTEND(modernize-*)
