// The controller of a large cluster whose clients keep much.
#include <gtest/gtest.h>

#include "tests/controller_memory/many_clients.h"
#include "tests/support/heap_count.h"

namespace gangway {
namespace {

TEST(LargeClusterTest, AThousandResultsOfEachOfAHundredClientsOn128HostsTakeLessThanAGibibyte) {
  const int64_t before = heap_bytes();
  ManyClients cluster(128, 8);
  for (int i = 0; i < 100; ++i) cluster.add_client();
  cluster.run_all(1000);
  EXPECT_EQ(cluster.counts().arrays, 100'000u);
  const int64_t bytes = heap_bytes() - before;
  RecordProperty("bytes", cat(bytes));
  EXPECT_LT(bytes, int64_t{1} << 30);
}

}  // namespace
}  // namespace gangway
