// The order of tickets on the devices of every cluster that a test has in its process: a failure of
// the test that runs when the cluster ends.
#include <gtest/gtest.h>

#include "tests/support/order_check.h"

namespace gangway {

std::shared_ptr<OrderLog> order_log_of_test() {
  return {new OrderLog, [](const OrderLog* log) {
            const std::unique_ptr<const OrderLog> owned(log);
            EXPECT_EQ(broken_order(*log, RunsAre::kPerhapsCut), "");
          }};
}

}  // namespace gangway
