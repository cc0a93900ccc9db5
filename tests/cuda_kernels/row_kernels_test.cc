// Softmax, cross-entropy and norms on the emulated device.
#include <cmath>
#include <cstring>

#include "executor/devices/cuda/kernels/launch_sizes.h"
#include "executor/devices/cuda/kernels/many/many_pieces.h"
#include "tests/cuda_kernels/op_kernel.h"
#include "tests/interpret/interpret.h"
#include "tests/op_table/cases.h"
#include "tests/support/seed.h"

namespace gangway::emulated {
namespace {

DType wide(DType dtype) { return dtype == DType::kBF16 ? DType::kF32 : dtype; }
int64_t width(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

void softmax(OpRun& run) {
  run.launch("softmax" + suffix(run.in_type(0).dtype), run.rows(), 64, {run.in(0), run.out()},
             run.columns());
}
TEST(RowKernels, Softmax) { check_op(Op::softmax, softmax); }

TEST(RowKernels, SoftmaxOfSeveralWarpsAndInPlace) {
  EmulatedMachine machine;
  Gpu gpu(machine);
  const int64_t columns = 300;
  std::vector<float> values(columns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7);
  float* data = gpu.upload(values);
  const cuda::Access both{data, columns * 4, cuda::AccessKind::kReadWrite};
  ASSERT_TRUE(
      gpu.launch(gpu.at("softmax"), "softmax_f32", {1}, {128}, {both}, data, data, columns).ok());
  double sum = 0;
  for (float y : gpu.download(data, columns)) sum += y;
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(machine.report_text(), "");
}

void softmax_grad(OpRun& run) {
  run.launch("softmax_grad" + suffix(run.in_type(0).dtype), run.rows(), 32,
             {run.in(0), run.in(1), run.out()}, run.columns());
}
TEST(RowKernels, SoftmaxGrad) { check_op(Op::softmax_grad, softmax_grad); }

void cross_entropy(OpRun& run) {
  run.launch("cross_entropy" + suffix(run.in_type(0).dtype), run.rows(), 64,
             {run.in(0), run.in(1), run.out(0), run.out(1)}, run.columns());
}
TEST(RowKernels, CrossEntropy) { check_op(Op::cross_entropy, cross_entropy); }

void cross_entropy_grad(OpRun& run) {
  run.launch("cross_entropy_grad" + suffix(run.in_type(0).dtype), run.rows(), 32,
             {run.in(0), run.in(1), run.in(2), run.in(3), run.out()}, run.columns());
}
TEST(RowKernels, CrossEntropyGrad) { check_op(Op::cross_entropy_grad, cross_entropy_grad); }

// Rows of whole strips take one kernel, other rows two.
void cross_entropy_and_grad(OpRun& run) {
  const DType dtype = run.in_type(0).dtype;
  const int64_t bytes = run.columns() * width(dtype), strips = bytes / 16;
  if (bytes % 16 == 0) {
    return run.launch_shared(
        "cross_entropy_and_grad" + suffix(dtype), run.rows(), 64, static_cast<uint32_t>(bytes),
        {run.in(0), run.in(1), run.in(2), run.out(0), run.out(1), run.out(2)}, {&strips});
  }
  cross_entropy(run);
  run.launch("cross_entropy_grad" + suffix(dtype), run.rows(), 64,
             {run.in(0), run.in(1), OpRun::read(run.out(1)), run.in(2), run.out(2)}, run.columns());
}
TEST(RowKernels, CrossEntropyAndGrad) {
  check_op(Op::cross_entropy_and_grad, cross_entropy_and_grad);
}

// The results of kernels of a loss and its gradient.
template <class T>
struct Losses {
  std::vector<cuda::WideOf<T>> loss, log_sum;
  std::vector<T> dlogits;
};

// Losses of five rows of `classes`: the first has a label that is no class, the second begins with
// more -inf than a thread sees at once, the third has a NaN.
template <class T>
Losses<T> losses_of(const std::string& type, int64_t classes, uint32_t threads, bool joined,
                    bool in_place) {
  using W = cuda::WideOf<T>;
  const int64_t rows = 5, n = rows * classes;
  Rng rng(tests::test_seed(), 9);
  std::vector<T> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(cuda::narrow<T>(static_cast<W>(rng.uniform() * 40 - 20)));
  for (int64_t c = 0; c < 24; ++c)
    values[static_cast<size_t>(classes + c)] = cuda::narrow<T>(static_cast<W>(-INFINITY));
  values[static_cast<size_t>(2 * classes + 7)] = cuda::narrow<T>(static_cast<W>(NAN));
  EmulatedMachine machine;
  Gpu gpu(machine);
  T* const logits = gpu.upload(values);
  const auto last = static_cast<int32_t>(classes - 1);
  const int32_t* const labels = gpu.upload(std::vector<int32_t>{last + 1, 30, 2, last, 0});
  const W* const dloss = gpu.upload(std::vector<W>{1, 0.5, 1, -2, 0.25});
  W *const loss = gpu.buffer<W>(rows), *const log_sum = gpu.buffer<W>(rows);
  T* const dlogits = in_place ? logits : gpu.buffer<T>(n);
  const auto reads_labels = Gpu::reads(labels, rows), reads_dloss = Gpu::reads(dloss, rows);
  const auto writes_loss = Gpu::writes(loss, rows), writes_log_sum = Gpu::writes(log_sum, rows);
  std::vector<cuda::Access> to_grad = {Gpu::reads(logits, n), Gpu::writes(dlogits, n)};
  if (in_place) to_grad = {{logits, Gpu::bytes_of<T>(n), cuda::AccessKind::kReadWrite}};
  const auto launch = [&](const std::string& kernel, int64_t shared,
                          std::vector<cuda::Access> accesses,
                          std::initializer_list<const void*> arguments) {
    const std::vector<const void*> pointers = arguments;
    ASSERT_TRUE(
        gpu.driver
            .launch(gpu.at(kernel), {.kernel = gpu.driver.kernel({}, kernel + "_" + type).take(),
                                     .grid = {static_cast<uint32_t>(rows)},
                                     .block = {threads},
                                     .shared_bytes = static_cast<uint32_t>(shared),
                                     .arguments = pointers,
                                     .accesses = accesses})
            .ok());
  };
  if (joined) {
    const int64_t bytes = Gpu::bytes_of<T>(classes), strips = bytes / 16;
    to_grad.insert(to_grad.end(), {reads_labels, reads_dloss, writes_loss, writes_log_sum});
    launch("cross_entropy_and_grad", bytes, to_grad,
           {&logits, &labels, &dloss, &loss, &log_sum, &dlogits, &strips});
  } else {
    launch("cross_entropy", 0, {Gpu::reads(logits, n), reads_labels, writes_loss, writes_log_sum},
           {&logits, &labels, &loss, &log_sum, &classes});
    to_grad.insert(to_grad.end(), {reads_labels, reads_dloss, Gpu::reads(log_sum, rows)});
    launch("cross_entropy_grad", 0, to_grad,
           {&logits, &labels, &log_sum, &dloss, &dlogits, &classes});
  }
  Losses<T> made{gpu.download(loss, rows), gpu.download(log_sum, rows), gpu.download(dlogits, n)};
  EXPECT_EQ(machine.report_text(), "");
  return made;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
void expect_the_bits_of_both(const std::string& type) {
  for (const int64_t classes : {int64_t{64}, int64_t{1040}}) {
    for (const uint32_t threads : {32u, 64u}) {
      SCOPED_TRACE(cat(type, ", ", classes, " classes, ", threads, " threads"));
      const Losses<T> apart = losses_of<T>(type, classes, threads, false, false);
      EXPECT_TRUE(std::isnan(apart.loss[0]) && std::isnan(apart.loss[2]));
      EXPECT_FALSE(std::isnan(apart.loss[1]) || std::isnan(apart.loss[3]));
      for (int64_t i = 0; i < 4 * classes; ++i) {
        const auto d = static_cast<double>(cuda::widen(apart.dlogits[static_cast<size_t>(i)]));
        ASSERT_EQ(std::isnan(d), i / classes % 2 == 0) << i;
      }
      for (const bool in_place : {false, true}) {
        const Losses<T> joined = losses_of<T>(type, classes, threads, true, in_place);
        EXPECT_TRUE(same_bits(joined.loss, apart.loss));
        EXPECT_TRUE(same_bits(joined.log_sum, apart.log_sum));
        EXPECT_TRUE(same_bits(joined.dlogits, apart.dlogits));
      }
      EXPECT_TRUE(
          same_bits(losses_of<T>(type, classes, threads, false, true).dlogits, apart.dlogits));
    }
  }
}

TEST(RowKernels, CrossEntropyAndGradHasTheBitsOfBothAlsoInPlace) {
  expect_the_bits_of_both<float>("f32");
  expect_the_bits_of_both<double>("f64");
  expect_the_bits_of_both<cuda::bf16>("bf16");
}

TEST(RowKernels, ALabelOutOfRangeGivesANanLoss) {
  EmulatedMachine machine;
  Gpu gpu(machine);
  const int64_t classes = 3;
  const float* logits = gpu.upload(std::vector<float>(6, 1.0f));
  const int32_t* labels = gpu.upload(std::vector<int32_t>{3, 2});
  float *loss = gpu.buffer<float>(2), *log_sum = gpu.buffer<float>(2);
  ASSERT_TRUE(gpu.launch(gpu.at("loss"), "cross_entropy_f32", {2}, {32},
                         {Gpu::reads(logits, 6), Gpu::reads(labels, 2), Gpu::writes(loss, 2),
                          Gpu::writes(log_sum, 2)},
                         logits, labels, loss, log_sum, classes)
                  .ok());
  const std::vector<float> got = gpu.download(loss, 2);
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_NEAR(got[1], std::log(3.0), 1e-6);
}

// Near 1e6 steps of f32 are 1/16. The logits are whole steps, so their common offset is exact.
TEST(RowKernels, AnOffsetCommonToAllLogitsCostsNoDigitsOfLossOrGradient) {
  const int64_t classes = 4, strips = 1;
  const double plain[] = {0, 1, 2, 1};
  const double total = 1 + 2 * std::exp(1.0) + std::exp(2.0);
  for (const float offset : {0.0f, 1e4f, -1e4f, 1e6f}) {
    SCOPED_TRACE(offset);
    std::vector<float> values;
    for (const double x : plain) values.push_back(static_cast<float>(x) + offset);
    EmulatedMachine machine;
    Gpu gpu(machine);
    const float *logits = gpu.upload(values), *dloss = gpu.upload(std::vector<float>{1});
    const int32_t* labels = gpu.upload(std::vector<int32_t>{0});
    float *loss = gpu.buffer<float>(1), *log_sum = gpu.buffer<float>(1),
          *apart = gpu.buffer<float>(4), *joined = gpu.buffer<float>(4);
    const auto expect_right = [&](const float* gradient) {
      EXPECT_NEAR(gpu.download(loss, 1)[0], std::log(total), 1e-6);
      const std::vector<float> got = gpu.download(gradient, 4);
      for (size_t c = 0; c < 4; ++c)
        EXPECT_NEAR(got[c], std::exp(plain[c]) / total - (c == 0 ? 1 : 0), 1e-6);
    };
    ASSERT_TRUE(gpu.launch(gpu.at("loss"), "cross_entropy_f32", {1}, {32},
                           {Gpu::reads(logits, 4), Gpu::reads(labels, 1), Gpu::writes(loss, 1),
                            Gpu::writes(log_sum, 1)},
                           logits, labels, loss, log_sum, classes)
                    .ok());
    ASSERT_TRUE(gpu.launch(gpu.at("gradient"), "cross_entropy_grad_f32", {1}, {32},
                           {Gpu::reads(logits, 4), Gpu::reads(labels, 1), Gpu::reads(log_sum, 1),
                            Gpu::reads(dloss, 1), Gpu::writes(apart, 4)},
                           logits, labels, log_sum, dloss, apart, classes)
                    .ok());
    expect_right(apart);
    const std::vector<const void*> arguments = {&logits,  &labels, &dloss, &loss,
                                                &log_sum, &joined, &strips};
    const std::vector<cuda::Access> accesses = {Gpu::reads(logits, 4),   Gpu::reads(labels, 1),
                                                Gpu::reads(dloss, 1),    Gpu::writes(loss, 1),
                                                Gpu::writes(log_sum, 1), Gpu::writes(joined, 4)};
    ASSERT_TRUE(gpu.driver
                    .launch(gpu.at("both"),
                            {.kernel = gpu.driver.kernel({}, "cross_entropy_and_grad_f32").take(),
                             .grid = {1},
                             .block = {32},
                             .shared_bytes = 16,
                             .arguments = arguments,
                             .accesses = accesses})
                    .ok());
    expect_right(joined);
  }
}

TEST(RowKernels, ANanLogitGivesANanLoss) {
  const int64_t classes = 304, rows = 4;
  std::vector<cuda::bf16> values(rows * classes, cuda::narrow<cuda::bf16>(1.0f));
  const cuda::bf16 nan = cuda::narrow<cuda::bf16>(NAN);
  values[0] = values[classes + 7] = values[3 * classes - 1] = nan;  // The last row has none.
  EmulatedMachine machine;
  Gpu gpu(machine);
  const cuda::bf16* logits = gpu.upload(values);
  const int32_t* labels = gpu.upload(std::vector<int32_t>{20, 20, 20, 20});
  float *loss = gpu.buffer<float>(rows), *log_sum = gpu.buffer<float>(rows);
  ASSERT_TRUE(gpu.launch(gpu.at("loss"), "cross_entropy_bf16", {rows}, {32},
                         {Gpu::reads(logits, rows * classes), Gpu::reads(labels, rows),
                          Gpu::writes(loss, rows), Gpu::writes(log_sum, rows)},
                         logits, labels, loss, log_sum, classes)
                  .ok());
  const std::vector<float> got = gpu.download(loss, rows);
  for (size_t row = 0; row < 3; ++row) EXPECT_TRUE(std::isnan(got[row])) << row;
  EXPECT_NEAR(got[3], std::log(304.0), 1e-5);
}

void norm(OpRun& run, bool centred) {
  const double eps = run.attrs().real("eps");
  const Argument bias = centred ? run.in(2) : Argument{};
  run.launch("norm" + suffix(run.in_type(0).dtype, run.in_type(1).dtype), run.rows(), 64,
             {run.in(0), run.in(1), bias, run.out()}, run.columns(), eps, centred);
}

TEST(RowKernels, RmsNorm) {
  check_op(Op::rms_norm, [](OpRun& run) { norm(run, false); });
}
TEST(RowKernels, LayerNorm) {
  check_op(Op::layer_norm, [](OpRun& run) { norm(run, true); });
}

void norm_grad(OpRun& run, bool centred) {
  const DType x = run.in_type(0).dtype, param = run.in_type(1).dtype, w = wide(x);
  const int64_t rows = run.rows(), dim = run.columns(), piece = 3;
  const int64_t pieces = (rows + piece - 1) / piece;
  const double eps = run.attrs().real("eps");
  const Argument stats = run.scratch(2 * rows * width(w));
  const Argument dweight = run.scratch(pieces * dim * width(w));
  const Argument dbias = run.scratch(pieces * dim * width(w));
  run.launch("norm_rows" + suffix(x), rows, 64, {run.in(0), stats}, dim, eps, centred);
  const Argument known = OpRun::read(stats);
  run.launch("norm_grad_param" + suffix(x), rows == 0 ? 0 : 2, 32,
             {run.in(0), run.in(2), known, dweight, dbias}, rows, dim, piece, centred);
  const int32_t across = 32;
  const auto join = [&](const Argument& parts, size_t result) {
    run.launch("join_sum" + suffix(w, param), (dim + across - 1) / across, 64,
               {OpRun::read(parts), run.out(result)}, pieces, dim, across);
  };
  join(dweight, 1);
  if (centred) join(dbias, 2);
  run.launch("norm_grad" + suffix(x, param), rows, 64,
             {run.in(0), run.in(1), run.in(2), known, run.out(0)}, dim, centred);
}

TEST(RowKernels, RmsNormGrad) {
  check_op(Op::rms_norm_grad, [](OpRun& run) { norm_grad(run, false); });
}
TEST(RowKernels, LayerNormGrad) {
  check_op(Op::layer_norm_grad, [](OpRun& run) { norm_grad(run, true); });
}

// These rows are longer than the op table's small cases: rows of many strips, and of odd length.
class LongRows : public ::testing::TestWithParam<std::tuple<DType, int64_t>> {
 protected:
  Literal any(Dims dims) {
    return op_table::random_literal({std::get<0>(GetParam()), std::move(dims)},
                                    op_table::Fill::kAny, rng_);
  }
  static std::vector<Literal> results(Op op, const Attrs& attrs, const std::vector<Literal>& in) {
    std::vector<Type> types;
    for (const Literal& input : in) types.push_back(input.type);
    return evaluate({op, types, attrs}, in);
  }
  void check(Op op, const Attrs& attrs, const std::vector<Literal>& inputs,
             const std::function<void(OpRun&)>& program) {
    SCOPED_TRACE(to_string(op));
    check_case(op, attrs, inputs, seed_, program);
  }

  const uint64_t seed_ = tests::test_seed();
  Rng rng_{seed_, 8};
  const int64_t rows_ = 3, columns_ = std::get<1>(GetParam());
};

TEST_P(LongRows, Softmax) {
  Literal x = any({rows_, columns_});
  // The elements that a thread reads first add nothing.
  for (size_t c = 0; c < 16; ++c) x.values[c] = -INFINITY;
  check(Op::softmax, {}, {x}, softmax);
  check(Op::softmax_grad, {}, {results(Op::softmax, {}, {x})[0], any({rows_, columns_})},
        softmax_grad);
}

TEST_P(LongRows, CrossEntropy) {
  const Literal x = any({rows_, columns_});
  const Literal labels{{DType::kI32, {rows_}}, {0, 17, static_cast<double>(columns_ - 1)}};
  check(Op::cross_entropy, {}, {x, labels}, cross_entropy);
  const std::vector<Literal> out = results(Op::cross_entropy, {}, {x, labels});
  check(Op::cross_entropy_grad, {}, {x, labels, out[1], out[0]}, cross_entropy_grad);
  check(Op::cross_entropy_and_grad, {}, {x, labels, out[0]}, cross_entropy_and_grad);
}

// Most of a row adds next to nothing, and its largest elements are far from 0.
TEST_P(LongRows, CrossEntropyOfLogitsFarApart) {
  Literal x = any({rows_, columns_});
  for (double& value : x.values) value *= 32;
  for (size_t c = 0; c < 24; ++c) x.values[c] = -INFINITY;
  const Literal labels{{DType::kI32, {rows_}}, {40, 17, static_cast<double>(columns_ - 1)}};
  check(Op::softmax, {}, {x}, softmax);
  check(Op::cross_entropy, {}, {x, labels}, cross_entropy);
  const std::vector<Literal> out = results(Op::cross_entropy, {}, {x, labels});
  check(Op::cross_entropy_grad, {}, {x, labels, out[1], out[0]}, cross_entropy_grad);
  check(Op::cross_entropy_and_grad, {}, {x, labels, out[0]}, cross_entropy_and_grad);
}

TEST_P(LongRows, Norms) {
  const Attrs attrs{{"eps", 1e-5}};
  const Literal x = any({rows_, columns_}), dy = any({rows_, columns_});
  const Literal weight = any({columns_}), bias = any({columns_});
  check(Op::rms_norm, attrs, {x, weight}, [](OpRun& run) { norm(run, false); });
  check(Op::layer_norm, attrs, {x, weight, bias}, [](OpRun& run) { norm(run, true); });
  check(Op::rms_norm_grad, attrs, {x, weight, dy}, [](OpRun& run) { norm_grad(run, false); });
  check(Op::layer_norm_grad, attrs, {x, weight, dy}, [](OpRun& run) { norm_grad(run, true); });
}

INSTANTIATE_TEST_SUITE_P(Types, LongRows,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kF64,
                                                              DType::kBF16),
                                            ::testing::Values(560, 301)));

TEST(RowKernels, Adamw) {
  check_op(Op::adamw, [](OpRun& run) {
    constexpr int64_t kPiece = cuda::kAdamwPiece;
    const Attrs& a = run.attrs();
    const double beta1 = a.real("beta1"), beta2 = a.real("beta2"), eps = a.real("eps");
    const int64_t n = run.in_type(0).elements();
    cuda::ManyPieces<1> pieces{.count = 1};
    pieces.elements[0] = n;
    const cuda::ManyNumbers<1> decay{{a.real("weight_decay")}};
    run.launch_shared("adamw_1" + suffix(run.in_type(0).dtype, run.in_type(3).dtype),
                      (n + kPiece - 1) / kPiece, 32, 0,
                      {run.in(0), run.in(1), run.in(2), run.in(3), run.out(0), run.out(1),
                       run.out(2), run.in(4), run.in(5), run.in(6), run.in(7)},
                      {&pieces, &decay, &beta1, &beta2, &eps}, 7);
  });
}

}  // namespace
}  // namespace gangway::emulated
