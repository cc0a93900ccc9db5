#include "ir/types/type.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(Type, PrintsItsElementTypeAndSizes) {
  EXPECT_EQ(to_string(f32()), "f32[]");
  EXPECT_EQ(to_string(bf16({64, 512})), "bf16[64, 512]");
}

TEST(Type, HoldsUpTo2To48ElementsWhateverSizesAreZero) {
  const int64_t most = int64_t{1} << 48;
  for (const Dims& dims : {Dims{most}, Dims{1 << 20, 1 << 28}, Dims{0, most}, Dims{96, 1 << 20}}) {
    EXPECT_TRUE(is_valid(f64(dims))) << to_string(dims);
    EXPECT_GE(f64(dims).bytes(), 0) << to_string(dims);
  }
  for (const Dims& dims : {Dims{most + 1}, Dims{1 << 20, 1 << 29}, Dims{0, most, 2}, Dims{-1},
                           Dims{most, 0, 2}, Dims{INT64_MAX, INT64_MAX}}) {
    EXPECT_FALSE(is_valid(f64(dims))) << to_string(dims);
  }
}

TEST(Type, BytesFollowTheElementType) {
  EXPECT_EQ(bf16({64, 512}).bytes(), 64 * 512 * 2);
  EXPECT_EQ(f32().bytes(), 4);
}

}  // namespace
}  // namespace gangway
