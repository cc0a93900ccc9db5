// Norms of rows that a block holds, of one strip to as many as a block has threads, and of rows
// that are too long or no whole number of strips; each with its gradients.
#include <gtest/gtest.h>

#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_checks.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using op_table::Fill;
using op_table::Input;

class NormSizes : public ::testing::TestWithParam<DType> {
 protected:
  void check(int64_t rows, int64_t dim) {
    SCOPED_TRACE(cat("[", rows, ", ", dim, "]"));
    const DType dtype = GetParam();
    const Input x{{dtype, {rows, dim}}, Fill::kAny};
    const Input weight{{dtype, {dim}}, Fill::kAny};
    const Attrs eps = {{"eps", 1e-5}};
    const auto test = [&](Op op, std::vector<Input> inputs) {
      expect_the_reference(devices_, {op, eps, op_table::inputs(std::move(inputs)), nullptr}, dtype,
                           rng_);
    };
    test(Op::rms_norm, {x, weight});
    test(Op::rms_norm_grad, {x, weight, x});
    test(Op::layer_norm, {x, weight, weight});
    test(Op::layer_norm_grad, {x, weight, x});
  }

 private:
  OpDevices devices_{emulated::card_maker(2).make(), 1};
  Rng rng_{tests::test_seed(), 6};
};

TEST_P(NormSizes, HaveTheReferencesResults) {
  check(1, 8);
  check(16, 24);
  check(17, 256);
  check(50, 8);
  check(5, 1032);
  check(3, 30);
}

// Two rows for each block, the last one alone.
TEST_P(NormSizes, ABlockComputesSeveralRowsWhereThereAreMany) { check(4097, 8); }

TEST_P(NormSizes, RowsOfAsManyStripsAsThreadsAndOneMoreHaveTheReferencesResults) {
  const auto strip = static_cast<int64_t>(16 / size_of(GetParam()));
  check(3, 512 * strip);
  check(2, 513 * strip);
}

INSTANTIATE_TEST_SUITE_P(DTypes, NormSizes,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kF64),
                         [](const auto& i) { return std::string(to_string(i.param)); });

}  // namespace
}  // namespace gangway
