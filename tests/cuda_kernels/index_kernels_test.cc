// Gather, scatter-add, top-k and sort on the emulated device.
#include <cmath>
#include <limits>

#include "tests/cuda_kernels/op_kernel.h"

namespace gangway::emulated {
namespace {

int64_t inner(const Type& type, size_t from) {
  int64_t n = 1;
  for (size_t d = from; d < type.dims.size(); ++d) n *= type.dims[d];
  return n;
}

TEST(IndexKernels, Take) {
  check_op(Op::take, [](OpRun& run) {
    const Type& table = run.in_type(0);
    const int64_t rows = table.dims[0], dim = inner(table, 1), n = run.in_type(1).elements();
    run.launch(cat("gather_rows_", size_of(table.dtype)), n * dim == 0 ? 0 : 2, 32,
               {run.in(0), run.in(1), run.out()}, rows, dim, n);
  });
}

TEST(IndexKernels, TopK) {
  check_op(Op::top_k, [](OpRun& run) {
    const int64_t k = run.attrs().integer("k");
    run.launch("top_k" + suffix(run.in_type(0).dtype), k == 0 ? 0 : run.rows(), 64,
               {run.in(0), run.out(0), run.out(1)}, run.columns(), k);
  });
}

TEST(IndexKernels, TopKPutsNoNumberFirstAndTheLowerIndexAmongEquals) {
  EmulatedMachine machine;
  Gpu gpu(machine);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const int64_t n = 6, k = 4;
  const float* x = gpu.upload(std::vector<float>{1, 5, nan, 5, -0.0f, 0});
  float* values = gpu.buffer<float>(k);
  int32_t* indices = gpu.buffer<int32_t>(k);
  ASSERT_TRUE(gpu.launch(gpu.at("top_k"), "top_k_f32", {1}, {32},
                         {Gpu::reads(x, n), Gpu::writes(values, k), Gpu::writes(indices, k)}, x,
                         values, indices, n, k)
                  .ok());
  EXPECT_EQ(gpu.download(indices, k), (std::vector<int32_t>{2, 1, 3, 0}));
  EXPECT_EQ(machine.report_text(), "");
}

TEST(IndexKernels, Sort) {
  check_op(Op::sort, [](OpRun& run) {
    const int64_t n = run.in_type(0).elements();
    run.launch("sort_rows" + suffix(run.in_type(0).dtype), n == 0 ? 0 : 2, 32,
               {run.in(0), run.out(0), run.out(1)}, run.columns(), n);
  });
}

}  // namespace
}  // namespace gangway::emulated
