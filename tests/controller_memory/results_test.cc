// The controller's memory for one more result, client and stream. The bounds leave room for 100
// clients of 1,000 results each on 128 hosts in 1 GiB (slow/large_cluster_test.cc).
#include <gtest/gtest.h>

#include "runtime/fibers/reactor.h"
#include "runtime/net/frames.h"
#include "tests/controller_memory/many_clients.h"
#include "tests/support/heap_count.h"

namespace gangway {
namespace {

// Bytes for a result, beyond those in memory that the plan has anyway.
int64_t bytes_per_result(uint32_t hosts, uint32_t devices_per_host) {
  ManyClients cluster(hosts, devices_per_host);
  cluster.add_client();
  cluster.run_all(10);
  const int64_t before = heap_bytes();
  constexpr int kRuns = 100;
  cluster.run_all(kRuns);
  EXPECT_EQ(cluster.counts().arrays, 10u + kRuns);
  return (heap_bytes() - before) / kRuns;
}

TEST(ControllerMemoryTest, AKeptResultIsOneEntryHoweverManyHostsHoldIt) {
  const int64_t on_one = bytes_per_result(1, 1);
  EXPECT_GT(on_one, 0);
  EXPECT_LE(on_one, 1024);
  EXPECT_EQ(bytes_per_result(4, 8), on_one);
  EXPECT_EQ(bytes_per_result(128, 1), on_one);
}

TEST(ControllerMemoryTest, ArraysThatAClientKeepsAreFreedWithIt) {
  ManyClients cluster(4, 2);
  cluster.add_client();
  cluster.add_client();
  cluster.run_all(20);
  cluster.remove_client();
  EXPECT_EQ(cluster.counts().arrays, 20u);
  EXPECT_EQ(cluster.counts().clients, 1u);
}

TEST(ControllerMemoryTest, AClientWithAPlanOnAThousandDevicesTakesLessThanAMebibyte) {
  ManyClients cluster(128, 8);
  cluster.add_client();
  const int64_t before = heap_bytes();
  constexpr int kClients = 4;
  for (int i = 0; i < kClients; ++i) cluster.add_client();
  EXPECT_LE((heap_bytes() - before) / kClients, 1 << 20);
}

TEST(ControllerMemoryTest, AStreamThatOwesNothingTakesLessThanAHundredKibibytes) {
  const auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    std::vector<std::unique_ptr<FrameStream>> streams;
    const int64_t before = heap_bytes();
    constexpr int kStreams = 64;
    std::vector<Stream> peers;
    for (int i = 0; i < kStreams; ++i) {
      kj::TwoWayPipe pipe = kj::newTwoWayPipe();
      streams.push_back(std::make_unique<FrameStream>(*reactor, FrameOptions{}));
      streams.back()->attach(kj::mv(pipe.ends[0]));
      peers.push_back(kj::mv(pipe.ends[1]));
    }
    EXPECT_LE((heap_bytes() - before) / kStreams, 100 << 10);
  });
}

}  // namespace
}  // namespace gangway
