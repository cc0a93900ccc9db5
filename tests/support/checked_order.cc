// Checks at the end of every cluster in a test's process that its devices followed the order of
// tickets and, if it is simulated, that no host wrote into memory that had been given to another
// transfer. A violation fails the test that runs at that moment.
#include <gtest/gtest.h>

#include "runtime/os/landing_log.h"
#include "tests/support/order_check.h"

namespace gangway {

std::shared_ptr<OrderLog> order_log_of_test() {
  return {new OrderLog, [](const OrderLog* log) {
            const std::unique_ptr<const OrderLog> owned(log);
            EXPECT_EQ(broken_order(*log, RunsAre::kPerhapsCut), "");
          }};
}

std::shared_ptr<LandingLog> landing_log_of_test() {
  return {new LandingLog, [](const LandingLog* log) {
            const std::unique_ptr<const LandingLog> owned(log);
            EXPECT_EQ(log->broken(), "");
          }};
}

}  // namespace gangway
