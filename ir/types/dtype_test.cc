#include "ir/types/dtype.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(DType, NamesParseBackToTheSameType) {
  for (int i = 0; i < kDTypeCount; ++i) {
    auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("f16"), std::nullopt);
}

}  // namespace
}  // namespace gangway
