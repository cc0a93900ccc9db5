#include "runtime/base/units.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(Units, BytesUsePowersOf1024) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(~uint64_t{0}), "16.0 EiB");
}

TEST(Units, DurationsKeepThreeDigits) {
  EXPECT_EQ(format_duration_ns(850), "850 ns");
  EXPECT_EQ(format_duration_ns(12'340), "12.3 us");
  EXPECT_EQ(format_duration_ns(999'900), "1.00 ms");
  EXPECT_EQ(format_duration_ns(1'250'000'000), "1.25 s");
  EXPECT_EQ(format_duration_ns(200'000'000'000), "3 min 20 s");
  EXPECT_EQ(format_duration_ns(7'500'000'000'000), "2 h 05 min");
  EXPECT_EQ(format_duration_ns(-5), "-5 ns");
}

TEST(Units, CountsUsePowersOf1000) {
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(12'345), "12.3 k");
  EXPECT_EQ(format_count(1.1e6), "1.10 M");
}

}  // namespace
}  // namespace gangway
