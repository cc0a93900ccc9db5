// argmax along rows that a block takes and along shorter ones: the lowest index among equal
// elements, the first NaN, rows of infinities alone.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "runtime/base/rng.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_devices.h"
#include "tests/interpret/interpret.h"
#include "tests/support/seed.h"

namespace gangway::argmax_test {
namespace {

class Argmax : public ::testing::TestWithParam<DType> {
 protected:
  // Takes the argmax of rows of `axis` small whole numbers, of which many are equal. `change` makes
  // the rows special.
  template <class Change>
  void expect_the_reference(int64_t axis, const Change& change) {
    SCOPED_TRACE(axis);
    constexpr int64_t kRows = 5;
    Builder b("f");
    b.result("y", argmax(b.parameter("x", {GetParam(), {kRows, axis}}), 1));
    Function whole = b.build();
    whole.local = true;
    whole.mesh = {{{"data", 1}}};
    const auto function = std::make_shared<const Function>(std::move(whole));
    Literal x = filled(function->types[0], 0);
    for (double& value : x.values) value = std::floor(rng_.uniform() * 8) - 4;
    for (int64_t row = 0; row < kRows; ++row)
      change(&x.values[static_cast<size_t>(row * axis)], row);
    const Literal want = interpret_local(*function, {{x}})[0][0];
    EXPECT_EQ(devices_.run(function, {{x}})[0][0].values, want.values);
    EXPECT_EQ(devices_.report(), "");
  }
  template <class Change>
  void expect_the_reference(const Change& change) {
    for (const int64_t axis : {1, 31, 32, 33, 300, 5000}) {
      expect_the_reference(axis, [&](double* row, int64_t index) { change(row, index, axis); });
    }
  }
  bool is_float() const { return GetParam() != DType::kI32; }

 private:
  OpDevices devices_{emulated::card_maker(2).make(), 1};
  Rng rng_{tests::test_seed(), 9};
};

TEST_P(Argmax, ArgmaxIsTheLowestIndexAmongEquals) {
  expect_the_reference([](double*, int64_t, int64_t) {});
}

TEST_P(Argmax, ArgmaxFindsTheLargestElementAnywhere) {
  expect_the_reference([](double* row, int64_t index, int64_t axis) {
    row[index * (axis - 1) / 4] = 100;
    row[axis - 1] = 100;
  });
}

TEST_P(Argmax, ArgmaxIsTheFirstNan) {
  if (!is_float()) GTEST_SKIP() << "integers have no NaN";
  expect_the_reference([](double* row, int64_t index, int64_t axis) {
    row[0] = index == 0 ? 1 : std::numeric_limits<double>::infinity();
    row[(axis - 1) / (index + 1)] = std::nan("");
    row[axis - 1] = std::nan("");
  });
}

TEST_P(Argmax, ArgmaxOfNegativeInfinitiesIsTheFirst) {
  if (!is_float()) GTEST_SKIP() << "integers have no infinities";
  expect_the_reference([](double* row, int64_t, int64_t axis) {
    std::fill(row, row + axis, -std::numeric_limits<double>::infinity());
  });
}

INSTANTIATE_TEST_SUITE_P(DTypes, Argmax,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kF64, DType::kI32),
                         [](const auto& i) { return std::string(to_string(i.param)); });

}  // namespace
}  // namespace gangway::argmax_test
