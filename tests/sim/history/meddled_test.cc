// Changes what clients are told; the history of some seed must show it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/history/scene.h"
#include "tests/sim/meddling.h"
#include "tests/support/net/expect_found.h"

namespace gangway::history {
namespace {

using ::testing::HasSubstr;

TEST(MeddledHistoryTest, OutputsThatAreThoseOfTheRunBeforeAreFound) {
  expect_found(100, tells_outputs_of_the_run_before, HasSubstr(" does not fit: "), play);
}

TEST(MeddledHistoryTest, AProgramThatEndsWithoutAReasonIsFound) {
  expect_found(100, tells_that_a_run_has_failed, HasSubstr(": ended: "), play);
}

}  // namespace
}  // namespace gangway::history
