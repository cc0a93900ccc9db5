// What is checked of every cluster that a test has in its process, when it ends, as a failure of
// the test that runs then: the order of tickets on its devices, and, of a simulated one, that no
// host wrote into memory that had gone to another transfer.
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
