#include "runtime/os/landing_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gangway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr SegmentDescriptor kOne{.bytes = 4096, .token = 1}, kOther{.bytes = 4096, .token = 2};

TEST(LandingLogTest, AWriteIntoBytesThatAnotherTransferHasGotMeanwhileIsFound) {
  LandingLog log;
  log.begins(1, 1, {kOne, 0, 128});
  log.writes("h1", 1, {kOne, 0, 128});
  EXPECT_EQ(log.broken(), "");
  log.begins(2, 2, {kOne, 64, 64});
  log.writes("h2", 2, {kOne, 64, 64});
  EXPECT_EQ(log.broken(), "");
  log.writes("h1", 1, {kOne, 0, 128});
  EXPECT_THAT(log.broken(), AllOf(HasSubstr("device h1 wrote 128 bytes at 0"),
                                  HasSubstr("for request 1: those at 64 were handed to transfer 2 "
                                            "meanwhile")));
}

TEST(LandingLogTest, BytesAroundALaterTransferStillBelongToTheFirst) {
  LandingLog log;
  log.begins(1, 1, {kOne, 0, 192});
  log.begins(2, 2, {kOne, 64, 64});
  log.begins(3, 3, {kOne, 0, 64});
  log.begins(4, 4, {kOne, 128, 64});
  for (const auto& [request, offset] : {std::pair{2, 64}, {3, 0}, {4, 128}})
    log.writes("h", static_cast<uint64_t>(request), {kOne, offset, 64});
  EXPECT_EQ(log.broken(), "");
  log.begins(5, 5, {kOne, 32, 128});
  log.writes("h", 3, {kOne, 0, 64});
  log.writes("h", 4, {kOne, 128, 64});
  EXPECT_THAT(log.broken(), AllOf(HasSubstr("for request 3"), HasSubstr("for request 4")));
}

TEST(LandingLogTest, RequestsOfOneTenantOrOfDifferentSegmentsDoNotConflict) {
  LandingLog log;
  log.begins(1, 7, {kOne, 0, 64});
  log.begins(2, 7, {kOne, 0, 64});
  log.begins(3, 8, {kOther, 0, 64});
  for (const uint64_t request : {1, 2}) log.writes("h", request, {kOne, 0, 64});
  log.writes("h", 3, {kOther, 0, 64});
  log.writes("h", 9, {kOne, 0, 64});  // No begins() came for this request.
  EXPECT_EQ(log.broken(), "");
}

TEST(LandingLogTest, MemoryForLinksThatIsOfferedForTwoPlansIsFound) {
  LandingLog log;
  const std::vector<std::byte> one(8, std::byte{1}), other(8, std::byte{2});
  log.offers("plan 1 on h1", one);
  log.offers("plan 1 on h2", other);
  EXPECT_EQ(log.broken(), "");
  log.offers("plan 2 on h1", one);
  EXPECT_THAT(log.broken(), AllOf(HasSubstr("was offered for plan 2 on h1"),
                                  HasSubstr("was offered for plan 1 on h1 before")));
}

}  // namespace
}  // namespace gangway
