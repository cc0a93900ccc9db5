// Products of experts by Gangway's own kernels, on the emulated device.
#include <cmath>
#include <functional>
#include <limits>
#include <ostream>

#include "executor/devices/cuda/kernels/tiled/matrix_unit.h"
#include "executor/devices/cuda/lower/own_operation.h"
#include "tests/cuda_kernels/op_kernel.h"
#include "tests/op_table/cases.h"
#include "tests/support/seed.h"

namespace gangway::emulated {
namespace {

using cuda::OwnOperation;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void multiply(OpRun& run, GroupedKind kind, bool allow_tf32) {
  const Type &a = run.in_type(0), &b = run.in_type(1);
  const bool weight = kind == GroupedKind::kGradWeight;
  const int64_t capacity = run.attrs().integer("capacity");
  const GroupedMatmulDesc desc{
      .kind = kind,
      .in0 = a.dtype,
      .in1 = b.dtype,
      .out = run.out_type().dtype,
      .groups = a.dims[0],
      .slots = a.dims[1],
      .experts = capacity > 0 ? a.dims[1] / capacity : run.in_type(2).dims[1],
      .d = weight ? a.dims[2] : b.dims[1],
      .h = b.dims[2],
      .capacity = capacity,
      .allow_tf32 = allow_tf32};
  run.run_own(OwnOperation::grouped_matmul(run.gpu().driver, desc), capacity > 0 ? 2 : 3);
}
std::function<void(OpRun&)> products(Op op, bool allow_tf32 = false) {
  return [op, allow_tf32](OpRun& run) {
    if (op == Op::grouped_dot_grad_w) return multiply(run, GroupedKind::kGradWeight, allow_tf32);
    multiply(run, run.attrs().flag("transpose_w") ? GroupedKind::kGradInput : GroupedKind::kForward,
             allow_tf32);
  };
}

// Rounds to 10 bits of mantissa, ties away from zero. No number here is too small for all of them.
double to_tf32(double x) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::round(std::ldexp(mantissa, 11)), exponent - 11);
}
Literal to_tf32(Literal literal) {
  if (literal.type.dtype == DType::kF32) {
    for (double& x : literal.values) x = to_tf32(x);
  }
  return literal;
}

TEST(OwnExperts, GroupedDot) { check_op(Op::grouped_dot, products(Op::grouped_dot)); }
TEST(OwnExperts, GroupedDotGradOfWeights) {
  check_op(Op::grouped_dot_grad_w, products(Op::grouped_dot_grad_w));
}

// Operands that TF32 can write give the reference's results to f32's last bits.
TEST(OwnExperts, EveryCaseOfTheOpTableIsRightInTf32) {
  for (const op_table::OpCase& test : op_table::all_cases(DType::kF32)) {
    if (test.op != Op::grouped_dot && test.op != Op::grouped_dot_grad_w) continue;
    const uint64_t seed = tests::test_seed();
    Rng rng(seed, 3);
    std::vector<Literal> inputs;
    for (const Literal& input : test.make(rng)) inputs.push_back(to_tf32(input));
    check_case(test.op, test.attrs, inputs, seed, products(test.op, true));
  }
}

// These shapes are larger than the op table's small cases: they take several tiles, none of them
// full.
struct ManyRows {
  DType dtype = DType::kF32;
  bool allow_tf32 = false;
  std::string name;
  friend void PrintTo(const ManyRows& rows, std::ostream* out) { *out << rows.name; }
};
class ProductsOfManyRows : public ::testing::TestWithParam<std::tuple<ManyRows, uint64_t>> {
 protected:
  Literal any(Dims dims) {
    const Literal made =
        op_table::random_literal({param_.dtype, std::move(dims)}, op_table::Fill::kAny, rng_);
    return param_.allow_tf32 ? to_tf32(made) : made;
  }
  void check(Op op, const Attrs& attrs, const std::vector<Literal>& inputs) {
    check_case(op, attrs, inputs, seed_, products(op, param_.allow_tf32));
  }
  // 140 rows take several tiles; the second group leaves rows to no expert.
  void check(int64_t d, int64_t h) {
    SCOPED_TRACE(cat(d, " x ", h));
    const int64_t groups = 2, slots = 150, experts = 3;
    const Literal sizes{{DType::kI32, {groups, experts}}, {10, 0, 140, 1, 65, 20}};
    const Literal x = any({groups, slots, d}), dy = any({groups, slots, h});
    const Literal w = any({experts, d, h});
    const Attrs by_capacity = {{"capacity", slots / experts}};
    check(Op::grouped_dot, {}, {x, w, sizes});
    check(Op::grouped_dot, by_capacity, {x, w});
    check(Op::grouped_dot, {{"transpose_w", true}}, {dy, w, sizes});
    check(Op::grouped_dot_grad_w, {}, {x, dy, sizes});
    check(Op::grouped_dot_grad_w, by_capacity, {x, dy});
  }

  const ManyRows param_ = std::get<0>(GetParam());
  const uint64_t seed_ = tests::test_seed() + std::get<1>(GetParam());
  Rng rng_{seed_, 5};
};

TEST_P(ProductsOfManyRows, AreTheReferences) {
  // Rows of whole 16 bytes are moved as such: all rows of the second shape, those in f32 of the
  // third.
  check(20, 67);
  check(72, 136);
  if (param_.allow_tf32) check(20, 68);
}

INSTANTIATE_TEST_SUITE_P(
    OwnExperts, ProductsOfManyRows,
    ::testing::Combine(::testing::Values(ManyRows{DType::kF32, false, "f32"},
                                         ManyRows{DType::kF32, true, "tf32"},
                                         ManyRows{DType::kBF16, false, "bf16"}),
                       ::testing::Values(0, 1)),
    [](const auto& i) { return cat(std::get<0>(i.param).name, "_", std::get<1>(i.param)); });

// One group of 8 rows, two for the first expert, none for the second, five for the third, and one
// for none; d = 5, h = 6.
class OwnExpertsAlone : public ::testing::Test {
 protected:
  using Floats = std::vector<float>;

  OwnExpertsAlone() : gpu_(machine_) {}
  ~OwnExpertsAlone() override { EXPECT_EQ(machine_.report_text(), ""); }

  Floats numbers(int64_t n) {
    Floats made(static_cast<size_t>(n));
    for (float& x : made) x = static_cast<float>(rng_.uniform()) + 0.25f;
    return made;
  }
  Floats product(GroupedKind kind, const Floats& in0, const Floats& in1, bool allow_tf32 = true) {
    GroupedMatmulDesc desc = desc_;
    desc.kind = kind;
    desc.allow_tf32 = allow_tf32;
    const int64_t n = kind == GroupedKind::kForward     ? kSlots * kH
                      : kind == GroupedKind::kGradInput ? kSlots * kD
                                                        : kExperts * kD * kH;
    float* out = gpu_.buffer<float>(n);
    void* tensors[] = {gpu_.upload(in0), gpu_.upload(in1), gpu_.upload(sizes_), out};
    const OwnOperation own = OwnOperation::grouped_matmul(gpu_.driver, desc).take();
    EXPECT_TRUE(own.run(gpu_.driver, gpu_.at("experts"), tensors, nullptr).ok());
    return gpu_.download(out, n);
  }
  void is_launched_as(const GroupedMatmulDesc& desc, const std::string& kernel) {
    const OwnOperation own = OwnOperation::grouped_matmul(gpu_.driver, desc).take();
    ASSERT_EQ(own.commands.size(), 1u);
    EXPECT_EQ(own.commands[0].kernel.bits, gpu_.driver.kernel({}, kernel).take().bits) << kernel;
  }

  static constexpr int64_t kSlots = 8, kExperts = 3, kD = 5, kH = 6;
  const GroupedMatmulDesc desc_{.slots = kSlots, .experts = kExperts, .d = kD, .h = kH};
  std::vector<int32_t> sizes_ = {2, 0, 5};
  Rng rng_{tests::test_seed(), 6};
  EmulatedMachine machine_{{.seed = tests::test_seed()}};
  Gpu gpu_;
  const Floats x_ = numbers(kSlots * kD), dy_ = numbers(kSlots * kH),
               w_ = numbers(kExperts * kD * kH);
};

TEST_F(OwnExpertsAlone, TakeTheMatrixUnitInBf16AndWhereTf32IsAllowed) {
  GroupedMatmulDesc desc = desc_;
  is_launched_as(desc, "grouped_rows_f32_f32");
  desc.allow_tf32 = true;
  is_launched_as(desc, "grouped_rows_tf32_f32");
  desc.kind = GroupedKind::kGradInput;
  is_launched_as(desc, "grouped_rows_tf32_f32");
  desc.kind = GroupedKind::kGradWeight;
  is_launched_as(desc, "grouped_weight_tf32_f32");
  desc.in0 = desc.in1 = desc.out = DType::kF64;
  is_launched_as(desc, "grouped_weight_f64_f64");
  desc.in0 = desc.in1 = desc.out = DType::kBF16;
  is_launched_as(desc, "grouped_weight_bf16_bf16");
}

// Operands that are rounded before give the same bits. Operands that are cut off would not.
TEST_F(OwnExpertsAlone, InTf32RoundTheirOperandsToNearestAndNothingElse) {
  const auto check = [&](GroupedKind kind, const Floats& in0, const Floats& in1) {
    const auto rounded = [](Floats all) {
      for (float& x : all) x = static_cast<float>(to_tf32(x));
      return all;
    };
    const Floats got = product(kind, in0, in1);
    EXPECT_EQ(got, product(kind, rounded(in0), rounded(in1)));
    const Floats in_f32 = product(kind, in0, in1, false);
    EXPECT_NE(got, in_f32);
    // Each of the two operands, all of them positive, is off by up to 2^-11 of itself.
    double largest = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      if (in_f32[i] != 0)
        largest = std::max(largest, std::fabs(double{got[i]} - in_f32[i]) / in_f32[i]);
    }
    EXPECT_GT(largest, 1e-5);
    EXPECT_LT(largest, 2.1 / (1 << 11));
  };
  check(GroupedKind::kForward, x_, w_);
  check(GroupedKind::kGradInput, dy_, w_);
  check(GroupedKind::kGradWeight, x_, dy_);
}

TEST_F(OwnExpertsAlone, InTf32NanAndInfinityReachTheRowsThatMeetThemAlone) {
  const Floats before = product(GroupedKind::kForward, x_, w_);
  Floats x = x_, w = w_;
  x[0 * kD + 1] = kInfinity;
  x[3 * kD + 4] = cuda::float_of_bits(0xff800001u);  // TF32 has none of its bits of mantissa.
  w[1 * kD * kH] = NAN;                              // The second expert has no rows.
  const Floats got = product(GroupedKind::kForward, x, w);
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t row = i / kH;
    if (row == 0) {
      EXPECT_EQ(got[i], kInfinity) << i;
    } else if (row == 3) {
      EXPECT_TRUE(std::isnan(got[i])) << i;
    } else {
      EXPECT_EQ(got[i], before[i]) << i;
    }
  }
  Floats dy = dy_;
  dy[(kSlots - 1) * kH] = NAN;  // The row belongs to no expert.
  dy[1 * kH + 2] = -kInfinity;
  const Floats grad = product(GroupedKind::kGradWeight, x_, dy);
  const Floats grad_before = product(GroupedKind::kGradWeight, x_, dy_);
  for (size_t i = 0; i < grad.size(); ++i) {
    const bool meets = i < kD * kH && i % kH == 2;
    EXPECT_EQ(grad[i], meets ? -kInfinity : grad_before[i]) << i;
  }
}

TEST_F(OwnExpertsAlone, SizesBeyondTheSlotsAreCut) {
  sizes_ = {1, -7, 1000};
  Floats w;
  for (const float of_expert : {1.f, 2.f, 3.f}) w.insert(w.end(), kD * kH, of_expert);
  Floats want(kH, kD);
  want.insert(want.end(), (kSlots - 1) * kH, 3 * kD);
  for (const bool allow_tf32 : {false, true}) {
    EXPECT_EQ(product(GroupedKind::kForward, Floats(kSlots * kD, 1), w, allow_tf32), want);
  }
}

// The function rounds as the instruction cvt.rna.tf32.f32 does.
TEST(MatrixUnit, RoundsToTf32) {
  const auto rounded = [](float x) { return cuda::float_of_bits(cuda::round_to_tf32(x)); };
  constexpr float kLast = 1.f / (1 << 10), kLastOfF32 = 1.f / (1 << 23);
  EXPECT_EQ(rounded(1 + kLast), 1 + kLast);
  EXPECT_EQ(rounded(1 + kLast / 2), 1 + kLast);  // A tie, to even it would be 1.
  EXPECT_EQ(rounded(-1 - kLast / 2), -1 - kLast);
  EXPECT_EQ(rounded(1 + kLast / 2 - kLastOfF32), 1);
  EXPECT_EQ(rounded(2 - kLastOfF32), 2);
  EXPECT_TRUE(std::signbit(rounded(-0.f)));
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), kInfinity);
  EXPECT_EQ(rounded(-kInfinity), -kInfinity);
  EXPECT_TRUE(std::isnan(rounded(cuda::float_of_bits(0x7f800001u))));
  EXPECT_TRUE(std::isnan(rounded(cuda::float_of_bits(0xffffffffu))));
}

}  // namespace
}  // namespace gangway::emulated
