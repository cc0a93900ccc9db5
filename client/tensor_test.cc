#include "client/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

namespace gangway {
namespace {

using ::testing::ElementsAre;

HostTensor counted() { return HostTensor::of<float>({3}, {1, 2, 3}); }

TEST(HostTensorTest, ElementsOfATemporaryOutliveIt) {
  const auto elements = counted().as<float>();
  static_assert(std::is_same_v<decltype(elements), const std::vector<float>>);
  const HostTensor other = HostTensor::of<float>({3}, {7, 7, 7});
  EXPECT_THAT(elements, ElementsAre(1, 2, 3));
  EXPECT_THAT(std::as_const(other).as<float>(), ElementsAre(7, 7, 7));
}

TEST(HostTensorTest, ElementsOfATensorThatStaysAreNotCopied) {
  const HostTensor tensor = counted();
  const auto elements = tensor.as<float>();
  static_assert(std::is_same_v<decltype(elements), const std::span<const float>>);
  EXPECT_EQ(static_cast<const void*>(elements.data()), tensor.bytes.data());
}

}  // namespace
}  // namespace gangway
