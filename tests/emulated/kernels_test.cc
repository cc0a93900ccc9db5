// Gangway's own kernels against a reference in double, over many shapes and seeds.
#include <cmath>

#include "runtime/base/rng.h"
#include "tests/emulated/elements.h"
#include "tests/emulated/gpu_test.h"
#include "tests/support/seed.h"

namespace gangway::emulated::kernels_test {
namespace {

using cuda::bf16;

constexpr uint64_t kSeeds = 20;

template <class T>
std::vector<T> random_values(Rng& rng, int64_t n) {
  std::vector<T> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(cuda::narrow<T>(static_cast<cuda::WideOf<T>>(4 * rng.uniform() - 2)));
  return values;
}

template <class T>
std::vector<double> as_doubles(const std::vector<T>& values) {
  std::vector<double> wide;
  for (const T& value : values) wide.push_back(cuda::widen(value));
  return wide;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "at " << i;
}

template <class Program>
void for_each_seed(const Program& program) {
  const uint64_t first = tests::test_seed();
  for (uint64_t seed = first; seed < first + kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    EmulatedMachine machine({.seed = seed});
    Gpu gpu(machine);
    Rng rng(seed, 2);
    program(gpu, rng);
    EXPECT_EQ(machine.report_text(), "");
    if (::testing::Test::HasFailure()) return;
  }
}

template <class T>
void check_add(Gpu& gpu, Rng& rng, std::string_view name, double tolerance) {
  const int64_t n = 1 + static_cast<int64_t>(rng.below(400));
  const std::vector<T> a = random_values<T>(rng, n), b = random_values<T>(rng, n);
  const T *x = gpu.upload(a), *y = gpu.upload(b);
  T* out = gpu.buffer<T>(n);
  ASSERT_TRUE(gpu.launch(gpu.at(name), name, {1 + static_cast<uint32_t>(rng.below(4))}, {64},
                         {Gpu::reads(x, n), Gpu::reads(y, n), Gpu::writes(out, n)}, x, y, out, n)
                  .ok());
  std::vector<double> expected = as_doubles(a);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += as_doubles(b)[i];
  expect_near(as_doubles(gpu.download(out, n)), expected, tolerance);
}

TEST(Kernels, AddEqualsTheReference) {
  for_each_seed([](Gpu& gpu, Rng& rng) {
    check_add<float>(gpu, rng, "add_f32", 1e-6);
    check_add<double>(gpu, rng, "add_f64", 1e-15);
    check_add<bf16>(gpu, rng, "add_bf16", 1.0 / 256);
  });
}

TEST(Kernels, ConvertRoundsToTheNearest) {
  for_each_seed([](Gpu& gpu, Rng& rng) {
    const int64_t n = 1 + static_cast<int64_t>(rng.below(400));
    const std::vector<float> values = random_values<float>(rng, n);
    const float* in = gpu.upload(values);
    auto* narrow = gpu.buffer<bf16>(n);
    auto* wide = gpu.buffer<float>(n);
    ASSERT_TRUE(gpu.launch(gpu.at("narrow"), "convert_f32_bf16", {2}, {96},
                           {Gpu::reads(in, n), Gpu::writes(narrow, n)}, in, narrow, n)
                    .ok());
    ASSERT_TRUE(gpu.launch(gpu.at("widen"), "convert_bf16_f32", {2}, {96},
                           {Gpu::reads(narrow, n), Gpu::writes(wide, n)}, narrow, wide, n)
                    .ok());
    const std::vector<float> back = gpu.download(wide, n);
    for (size_t i = 0; i < back.size(); ++i)
      ASSERT_LE(std::fabs(back[i] - values[i]), std::fabs(values[i]) / 256) << values[i];
  });
}

// Two lines of 100 in pieces of 16, with fewer blocks along an axis than it has pieces.
TEST(Sums, SumsAreWholeWhereAnAxisHasMorePiecesThanAGridHasBlocks) {
  for_each_seed([](Gpu& gpu, Rng& rng) {
    const int64_t lines = 2, axis = 100, piece = 16, pieces = 7, outer = 1;
    const std::vector<float> x = random_values<float>(rng, lines * axis);
    const float* in = gpu.upload(x);
    for (const bool rows : {true, false}) {
      float* parts = gpu.buffer<float>(pieces * lines);
      const std::vector<cuda::Access> accesses = {Gpu::reads(in, lines * axis),
                                                  Gpu::writes(parts, pieces * lines)};
      const cuda::Status status =
          rows ? gpu.launch(gpu.at("rows"), "rows_sum_f32_f32", {2, 3}, {32}, accesses, in, parts,
                            axis, piece)
               : gpu.launch(gpu.at("columns"), "columns_sum_f32_f32", {1, 3}, {32}, accesses, in,
                            parts, outer, axis, lines, piece);
      ASSERT_TRUE(status.ok());
      std::vector<double> expected(static_cast<size_t>(pieces * lines));
      for (int64_t line = 0; line < lines; ++line) {
        for (int64_t i = 0; i < axis; ++i)
          expected[static_cast<size_t>(i / piece * lines + line)] +=
              double{x[static_cast<size_t>(rows ? line * axis + i : i * lines + line)]};
      }
      expect_near(as_doubles(gpu.download(parts, pieces * lines)), expected, 1e-5);
    }
  });
}

TEST(Modules, AreCompiledFromTextAndRun) {
  for_each_seed([](Gpu& gpu, Rng&) {
    const auto module = gpu.driver.compile({"twice.cu", R"(
#include "executor/devices/cuda/kernels/kernel_source.h"
namespace gangway::cuda {
GW_KERNEL void twice(Global<const float> in, Global<float> out, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const float x = in[i];
    out[i] = x + x;
  }
}
GW_KERNEL_TABLE(module, GW_ENTRY(twice));
}
)"});
    ASSERT_TRUE(module.ok()) << module.error().what();
    const auto kernel = gpu.driver.kernel(module.value(), "twice").take();
    const int64_t n = 50;
    const float* in = gpu.upload(std::vector<float>(n, 1.5f));
    float* out = gpu.buffer<float>(n);
    const void* arguments[] = {&in, &out, &n};
    const cuda::Access accesses[] = {Gpu::reads(in, n), Gpu::writes(out, n)};
    ASSERT_TRUE(gpu.driver
                    .launch(gpu.at("twice"), {.kernel = kernel,
                                              .grid = {1},
                                              .block = {32},
                                              .arguments = arguments,
                                              .accesses = accesses})
                    .ok());
    EXPECT_EQ(gpu.download(out, n), std::vector<float>(n, 3.0f));
  });
}

TEST(Modules, ModulesThatDoNotCompileAreRefusedWithTheCompilersWords) {
  EmulatedMachine machine;
  const auto module = machine.driver().compile({"wrong.cu", "int x = no_such_name;"});
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.error().message().find("no_such_name"), std::string::npos);
}

TEST(Products, HaveTheirEpilogue) {
  for_each_seed([](Gpu& gpu, Rng& rng) {
    const int64_t m = 3, n = 5, k = 7;
    const std::vector<float> a = random_values<float>(rng, m * k),
                             b = random_values<float>(rng, n * k);
    const std::vector<float> bias = random_values<float>(rng, n);
    const MatmulDesc desc{.m = m, .n = n, .k = k, .transpose_b = true};
    const auto product =
        gpu.driver.prepare(desc, {.bias = true, .activation = cuda::Activation::kRelu}).take();
    float* c = gpu.buffer<float>(m * n);
    void* tensors[] = {gpu.upload(a), gpu.upload(b), c, gpu.upload(bias)};
    ASSERT_TRUE(gpu.driver
                    .run(gpu.at("dot"), product.operation, tensors,
                         gpu.buffer<std::byte>(product.scratch_bytes))
                    .ok());
    std::vector<double> expected;
    for (int64_t i = 0; i < m * n; ++i) {
      double sum = bias[static_cast<size_t>(i % n)];
      for (int64_t x = 0; x < k; ++x)
        sum +=
            double{a[static_cast<size_t>(i / n * k + x)]} * b[static_cast<size_t>(i % n * k + x)];
      expected.push_back(std::max(sum, 0.0));
    }
    expect_near(as_doubles(gpu.download(c, m * n)), expected, 1e-5);
  });
}

TEST(Attention, AttentionToOneKeyGivesItsValue) {
  for_each_seed([](Gpu& gpu, Rng& rng) {
    const AttentionShape shape{.heads = 2, .seq_q = 3, .seq_k = 1, .head_dim = 8};
    const auto attention = gpu.driver.prepare_attention(shape).take();
    const std::vector<float> value = random_values<float>(rng, 16);
    float *out = gpu.buffer<float>(48), *lse = gpu.buffer<float>(6);
    void* tensors[] = {gpu.upload(random_values<float>(rng, 48)),
                       gpu.upload(random_values<float>(rng, 16)), gpu.upload(value), out, lse};
    ASSERT_TRUE(gpu.driver
                    .run(gpu.at("attention"), attention.operation, tensors,
                         gpu.buffer<std::byte>(attention.scratch_bytes))
                    .ok());
    std::vector<double> expected;
    for (size_t i = 0; i < 48; ++i) expected.push_back(value[i % 16]);
    expect_near(as_doubles(gpu.download(out, 48)), expected, 1e-5);
  });
}

}  // namespace
}  // namespace gangway::emulated::kernels_test
