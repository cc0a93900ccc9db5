// Sums and running sums of many elements. If elements were added to a sum one by one, it would lose
// digits, and stand still once the next element is below half a step of it.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_devices.h"

namespace gangway::long_sums_test {
namespace {

constexpr int64_t kElements = int64_t{1} << 18;

class LongSums : public ::testing::TestWithParam<DType> {
 protected:
  // The results for elements that are all the same.
  template <class Body>
  std::vector<double> results(const Dims& dims, const Body& body) {
    Builder b("f");
    b.result("y", body(b.parameter("x", {GetParam(), dims})));
    Function whole = b.build();
    whole.local = true;
    whole.mesh = {{{"data", 1}}};
    const auto function = std::make_shared<const Function>(std::move(whole));
    const Literal x = filled(function->types[0], 0.1);
    each_ = x.values[0];
    std::vector<double> found = devices_.run(function, {{x}})[0][0].values;
    EXPECT_EQ(devices_.report(), "");
    return found;
  }
  // A result is rounded once to its type. Before that its sum is off by a few steps of f32.
  void expect_close(double got, double want) {
    const double most = GetParam() == DType::kBF16 ? 1.0 / 256 : 1e-5;
    EXPECT_LE(std::fabs(got - want), most * want) << "got " << got << ", want " << want;
  }

  double each_ = 0;  // Each element, as the type rounds it.

 private:
  OpDevices devices_{emulated::card_maker(4).make(), 1};
};

TEST_P(LongSums, SumsOfARowKeepTheirDigits) {
  const std::vector<double> got = results({kElements}, [](Value x) { return sum(x, {0}); });
  ASSERT_EQ(got.size(), 1u);
  expect_close(got[0], kElements * each_);
}

TEST_P(LongSums, SumsOfColumnsKeepTheirDigits) {
  constexpr int64_t kColumns = 4;
  const std::vector<double> got =
      results({kElements / kColumns, kColumns}, [](Value x) { return sum(x, {0}); });
  ASSERT_EQ(got.size(), static_cast<size_t>(kColumns));
  for (const double sum : got) expect_close(sum, kElements / kColumns * each_);
}

TEST_P(LongSums, RunningSumsKeepTheirDigits) {
  const std::vector<double> got = results({kElements}, [](Value x) { return cumsum(x, 0); });
  ASSERT_EQ(got.size(), static_cast<size_t>(kElements));
  for (size_t i = 0; i < got.size(); i += 997)
    expect_close(got[i], static_cast<double>(i + 1) * each_);
  expect_close(got.back(), kElements * each_);
}

INSTANTIATE_TEST_SUITE_P(DTypes, LongSums, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& i) { return std::string(to_string(i.param)); });

}  // namespace
}  // namespace gangway::long_sums_test
