// A loss with its gradient: of rows that a block holds, of one strip to as many as shared memory
// has room for, and of rows that are too long or no whole number of strips, which take two kernels.
#include <gtest/gtest.h>

#include "executor/devices/cuda/kernels/launch_sizes.h"
#include "executor/devices/cuda/lower/lower.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_checks.h"
#include "tests/op_table/case_run.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using op_table::Fill;

class LossSizes : public ::testing::TestWithParam<DType> {
 protected:
  int64_t width() const { return static_cast<int64_t>(size_of(GetParam())); }
  // The longest row that is held.
  int64_t longest() const { return (kSharedBytesMax - cuda::kRowSumsBytes) / width(); }

  void check(int64_t rows, int64_t classes, size_t kernels) {
    SCOPED_TRACE(cat("[", rows, ", ", classes, "]"));
    const DType dtype = GetParam();
    const auto make = [=](Rng& rng) {
      const DType wide = dtype == DType::kF64 ? dtype : DType::kF32;
      std::vector<Literal> in = {
          op_table::random_literal({dtype, {rows, classes}}, Fill::kAny, rng),
          op_table::random_index({rows}, 0, classes, rng),
          op_table::random_literal({wide, {rows}}, Fill::kAny, rng)};
      if (rows > 1) in[1].values[0] = static_cast<double>(classes);  // It is no class: NaN.
      return in;
    };
    const op_table::OpCase test{Op::cross_entropy_and_grad, {}, make, nullptr};
    expect_the_reference(devices_, test, dtype, rng_);
    const Card card = emulated::card_maker(1).make();
    cuda::Gpu gpu(card.driver);
    const std::shared_ptr<Function> function = op_table::function_of(test, make(rng_));
    cuda::Lowering call(gpu, *function, NodeId{0});
    cuda::lower(call);
    EXPECT_EQ(call.commands.size(), kernels);
  }

 private:
  static constexpr int64_t kSharedBytesMax = 227 << 10;

  OpDevices devices_{emulated::card_maker(2).make(), 1};
  Rng rng_{tests::test_seed(), 7};
};

TEST_P(LossSizes, LossesOfWholeStripsTakeOneKernel) {
  const int64_t strip = 16 / width();
  check(1, strip, 1);
  check(5, 31 * strip, 1);
  check(3, 256 * strip, 1);
  check(2, 257 * strip, 1);
}

TEST_P(LossSizes, LossesOfOddLengthTakeTwoKernels) {
  check(3, 1, 2);
  check(4, 301, 2);
}

TEST_P(LossSizes, LossesLongerThanSharedMemoryTakeTwoKernels) {
  check(1, longest(), 1);
  check(1, longest() + 16 / width(), 2);
}

INSTANTIATE_TEST_SUITE_P(DTypes, LossSizes,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kF64),
                         [](const auto& i) { return std::string(to_string(i.param)); });

}  // namespace
}  // namespace gangway
