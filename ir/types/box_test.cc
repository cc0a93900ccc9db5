#include "ir/types/box.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

// The numbers of a box's elements in the whole tensor, in its own row-major order.
std::vector<int64_t> numbers_of(const Dims& dims, const Box& box) {
  std::vector<int64_t> numbers = {0};
  for (size_t d = 0; d < dims.size(); ++d) {
    std::vector<int64_t> next;
    for (const int64_t outer : numbers) {
      for (int64_t i = 0; i < box.size[d]; ++i) next.push_back(outer * dims[d] + box.begin[d] + i);
    }
    numbers = std::move(next);
  }
  return numbers;
}

TEST(Box, PiecesFollowOneAnotherAndKeepTheBound) {
  for (const Type& type : {f32({7}), f32({4, 6}), f64({3, 5, 2}), f32({1, 9, 1}), f32()}) {
    for (int64_t bytes_max = 1; bytes_max <= type.bytes() + 8; ++bytes_max) {
      std::vector<int64_t> seen;
      for (const Box& piece : pieces_of(type, bytes_max)) {
        ASSERT_TRUE(lies_in(piece, type.dims)) << to_string(piece);
        const std::vector<int64_t> numbers = numbers_of(type.dims, piece);
        const auto bytes = static_cast<int64_t>(numbers.size() * size_of(type.dtype));
        EXPECT_LE(bytes, std::max(bytes_max, static_cast<int64_t>(size_of(type.dtype))));
        seen.insert(seen.end(), numbers.begin(), numbers.end());
      }
      ASSERT_EQ(static_cast<int64_t>(seen.size()), type.elements());
      for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], static_cast<int64_t>(i));
    }
  }
}

TEST(Box, APieceHoldsAsManyRowsAsFit) {
  EXPECT_EQ(pieces_of(f32({6, 4}), 32),
            (std::vector<Box>{{{0, 0}, {2, 4}}, {{2, 0}, {2, 4}}, {{4, 0}, {2, 4}}}));
  EXPECT_EQ(
      pieces_of(f32({2, 6}), 16),
      (std::vector<Box>{{{0, 0}, {1, 4}}, {{0, 4}, {1, 2}}, {{1, 0}, {1, 4}}, {{1, 4}, {1, 2}}}));
  EXPECT_EQ(pieces_of(f32({0, 3}), 4), (std::vector<Box>{{{0, 0}, {0, 3}}}));
}

TEST(Box, BoxesOutsideATensorAreDetectedWhateverTheirNumbers) {
  const Dims dims = {4, 6};
  EXPECT_TRUE(lies_in({{0, 0}, {4, 6}}, dims));
  EXPECT_TRUE(lies_in({{4, 2}, {0, 1}}, dims));
  EXPECT_FALSE(lies_in({{0, 0}, {4, 7}}, dims));
  EXPECT_FALSE(lies_in({{-1, 0}, {2, 2}}, dims));
  EXPECT_FALSE(lies_in({{1, 0}, {INT64_MAX, 2}}, dims));
  EXPECT_FALSE(lies_in({{5, 0}, {0, 2}}, dims));
  EXPECT_FALSE(lies_in({{0}, {4}}, dims));
  EXPECT_EQ(to_string(Box{{0, 8}, {4, 8}}), "[0:4, 8:16]");
}

}  // namespace
}  // namespace gangway
