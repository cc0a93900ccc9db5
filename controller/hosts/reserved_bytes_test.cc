#include "controller/hosts/reserved_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/rng.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

TEST(ReservedBytesTest, EqualReservationsOnAllDevicesAreOnePiece) {
  ReservedBytes reserved(4096);
  for (int i = 0; i < 100; ++i) reserved.add(0, 4096, 10);
  EXPECT_EQ(reserved.pieces(), 1u);
  EXPECT_EQ(reserved[4095], 1000);
  reserved.add(1, 3, 5);
  EXPECT_EQ(reserved.pieces(), 3u);
  EXPECT_EQ(reserved.max(), 1005);
  EXPECT_EQ(reserved.first_above(0, 4096, 1000), 1u);
  EXPECT_EQ(reserved.of_pieces(0, 4096), (std::vector<int64_t>{1000, 1005, 1000}));
  EXPECT_EQ(reserved.of_pieces(2, 4), (std::vector<int64_t>{1005, 1000}));
  EXPECT_EQ(reserved.first_above(3, 4096, 1000), std::nullopt);
  reserved.add(1, 3, -5);
  EXPECT_EQ(reserved.pieces(), 1u);
}

TEST(ReservedBytesTest, BytesOfOverlappingRangesAddUp) {
  Rng rng(tests::test_seed(), 0x4E5E);
  constexpr uint32_t kDevices = 12;
  ReservedBytes reserved(kDevices);
  std::vector<int64_t> expected(kDevices, 0);
  for (int step = 0; step < 2000; ++step) {
    const auto first = static_cast<uint32_t>(rng.below(kDevices));
    const uint32_t end = first + 1 + static_cast<uint32_t>(rng.below(kDevices - first));
    const int64_t bytes = static_cast<int64_t>(rng.below(5)) - 2;
    reserved.add(first, end, bytes);
    for (uint32_t d = first; d < end; ++d) expected[d] += bytes;
    size_t pieces = 1;
    for (uint32_t d = 0; d < kDevices; ++d) {
      ASSERT_EQ(reserved[d], expected[d]) << "step " << step << ", device " << d;
      pieces += d > 0 && expected[d] != expected[d - 1] ? 1 : 0;
    }
    ASSERT_EQ(reserved.pieces(), pieces) << "step " << step;
    ASSERT_EQ(reserved.max(), *std::ranges::max_element(expected));
    const int64_t limit = expected[rng.below(kDevices)];
    std::optional<uint32_t> above;
    for (uint32_t d = first; d < end && !above; ++d) {
      if (expected[d] > limit) above = d;
    }
    ASSERT_EQ(reserved.first_above(first, end, limit), above);
  }
}

}  // namespace
}  // namespace gangway
