// A user's kernels, in C.
#include <stdlib.h>
#include <unistd.h>

#include "ir/build/user_kernel.h"

// a + 10 b of two f32 tensors of one shape.
int add_ten_times(const GangwayKernelCall* call) {
  const float *a = (const float*)call->inputs[0].data, *b = (const float*)call->inputs[1].data;
  float* out = (float*)call->result.data;
  if (call->version < 1 || call->input_count != 2) return 1;
  if (call->inputs[0].dtype != kGangwayF32 || call->result.rank != 2) return 2;
  for (int64_t i = 0; i < call->result.dims[0] * call->result.dims[1]; ++i) {
    out[i] = a[i] + 10 * b[i];
  }
  return 0;
}

int refuse(const GangwayKernelCall* call) { return 40 + (int)call->input_count; }

// An f32 tensor of ones, whatever it is given.
int ones(const GangwayKernelCall* call) {
  float* out = (float*)call->result.data;
  for (int64_t i = 0; i < call->result.elements; ++i) out[i] = 1;
  return 0;
}

// The same; comes to no end while there is a file of the name in HOLD_KERNEL.
int held(const GangwayKernelCall* call) {
  const char* const file = getenv("HOLD_KERNEL");
  while (file != NULL && access(file, F_OK) == 0) usleep(1000);
  return ones(call);
}
