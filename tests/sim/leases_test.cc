// Clients that lose their connections and attach again, on virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gangway.h"
#include "protocol/rpc_values.h"
#include "runtime/fibers/await.h"
#include "runtime/net/server.h"
#include "tests/sim/leases.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway::leases_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMicrosecond = 1000;

Program count_up(int64_t microseconds) {
  ProgramBuilder b("count_up", Mesh{{{"data", 4}}});
  const Value w = b.state("w", zeros(f32({8})));
  const Value next = w + timed(b.input("x", f32({8})), microseconds);
  b.update(w, next);
  b.output("sum", sum(next, {0}));
  return b.build();
}

HostTensor ones() { return HostTensor::of<float>({8}, std::vector<float>(8, 1.0f)); }

TEST(LeaseTest, NothingIsLostDoubledOrLeakedWhereConnectionsAreCut200TimesUnderLoad) {
  const LeaseReport report = cut_under_load(tests::test_seed(), 200);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_GT(report.runs, 200);
  EXPECT_GT(report.away, 100);
}

TEST(LeaseTest, AThousandShortLivedClientsLeaveNothing) {
  const LeaseReport report = soak(tests::test_seed(), 1000);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.runs, 1000);
}

TEST(LeaseTest, ResultsThatAClientHasNotSeenWaitForIt) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    std::vector<std::string> told;
    const Client client = cluster.connect(
        "client", {.on_warning = [&](const std::string& line) { told.push_back(line); }});
    {
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = slice.compile(count_up(1000));
      const Array x = slice.from_host(ones());
      step.run({{"x", x}}).wait();
      std::vector<gangway::Run> runs;
      for (int i = 0; i < 3; ++i) runs.push_back(step.run({{"x", x}}));
      pass(*reactor, 500 * kMicrosecond);
      cluster.cut_off_client("client");
      pass(*reactor, 30 * kSecond);
      EXPECT_EQ(cluster.controller.controller().program_counts().at(0).runs_done, 4u);
      EXPECT_FALSE(runs[2].done());
      cluster.network.heal("client", "controller");
      EXPECT_EQ(runs[2]["sum"].item<float>(), 32.0f);
      EXPECT_EQ(slice.read_state("w").as<float>()[0], 4.0f);
    }
    ASSERT_EQ(told.size(), 1u);
    EXPECT_THAT(told[0], HasSubstr("was lost: trying to attach again for 1 min 00 s"));
    client.close();
    pass(*reactor, kSecond);
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
  });
}

Program ticking() {
  ProgramBuilder b("ticking", Mesh{{{"data", 4}}});
  const Value w = b.state("w", zeros(f32({8})));
  b.update(w, timed(w + 1.0, 1000));
  return b.build();
}

// The client waits for the end of a repetition, and for devices that its own program has.
TEST(LeaseTest, WaitsThatWereAskedForOverLostConnectionsDoNotStay) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    const Slice slice = client.allocate({.devices = 4, .exclusive = true});
    const Executable step = slice.compile(ticking());
    const Repeat repeat = step.repeat(1'000'000);
    Fiber end = reactor->spawn("user", [&] { repeat.wait(); });
    Fiber devices = reactor->spawn("other user", [&] {
      EXPECT_EQ(error_of([&] {
                  client.allocate({.devices = 4, .exclusive = true, .wait_ms = 120'000});
                }).kind(),
                ErrorKind::kOverloaded);
    });
    std::string fibers;
    const auto count = [&](const std::string& name) {
      fibers = reactor->describe_fibers();
      int found = 0;
      for (size_t at = 0; (at = fibers.find(name, at)) != fibers.npos; ++at) ++found;
      return found;
    };
    pass(*reactor, kSecond);
    EXPECT_EQ(count("\"repetition\" waits"), 1) << fibers;
    const size_t fibers_before = reactor->live_fibers();
    for (int i = 0; i < 20; ++i) {
      cluster.network.break_connections("client");
      pass(*reactor, 3 * kSecond);
    }
    // The text names at most fifty fibers.
    EXPECT_LE(reactor->live_fibers(), fibers_before + 5) << fibers;
    EXPECT_LE(count("\"repetition\" waits"), 1) << fibers;
    EXPECT_LE(count("\"allocate\" waits"), 2) << "the first, and who asked last; " << fibers;
    devices.join();
    repeat.cancel();
    end.join();
  });
}

TEST(LeaseTest, AfterTheLeaseEveryWaitFailsAndSaysSo) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {.lease_ms = 2000}, [&](SimCluster& cluster, const Client& client) {
    const Slice slice = client.allocate({.devices = 4});
    const Executable step = slice.compile(count_up(1000));
    step.run({{"x", ones()}}).wait();
    cluster.cut_off_client("client");
    const gangway::Run run = step.run({{"x", ones()}});
    const int64_t cut_ns = reactor->clock().now_ns();
    Error status(ErrorKind::kBug, "not thrown");
    Fiber asks = reactor->spawn("ask", [&] { status = error_of([&] { client.status(); }); });
    const Error error = error_of([&] { run.wait(); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("did not come back within the lease of 2.00 s"));
    EXPECT_GE(reactor->clock().now_ns() - cut_ns, 2 * kSecond);
    EXPECT_LE(reactor->clock().now_ns() - cut_ns, 4 * kSecond);
    asks.join();
    EXPECT_EQ(status.message(), error.message());
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
    cluster.network.heal("client", "controller");
    EXPECT_EQ(error_of([&] { client.allocate({.devices = 4}); }).message(), error.message());
  });
}

// Whenever the connection breaks: before the controller has received the call, while it serves the
// call, and after it has sent the answer.
TEST(LeaseTest, CallsThatAreUnderWayWhenTheConnectionBreaksAreDoneOnce) {
  for (int64_t at = 0; at < 2000; at += 50) {
    auto reactor = Reactor::make_simulated({.seed = 3});
    with_client(*reactor, {.time = ProcessTime::kModelled},
                [&](SimCluster& cluster, const Client& client) {
                  const Controller& controller = cluster.controller.controller();
                  Fiber cuts = reactor->spawn("cut", [&] {
                    pass(*reactor, at * kMicrosecond);
                    cluster.network.break_connections("client");
                  });
                  std::optional<Slice> slice = client.allocate({.devices = 4});
                  EXPECT_EQ(controller.counts().slices, 1u) << at;
                  std::optional<Executable> step = slice->compile(count_up(10));
                  EXPECT_EQ(controller.counts().plans, 1u) << at;
                  EXPECT_EQ(step->run({{"x", ones()}})["sum"].item<float>(), 8.0f);
                  cuts.join();
                  step.reset();
                  slice.reset();
                  pass(*reactor, kSecond);
                  EXPECT_EQ(controller.counts().slices + controller.counts().plans, 0u) << at;
                });
  }
}

TEST(LeaseTest, ARunThatNobodyWaitsForIsDoneThoughItsProgramIsLetGoWhileTheConnectionIsLost) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    const Slice slice = client.allocate({.devices = 4});
    const Executable keeps_state = slice.compile(count_up(10));
    {
      const Executable step = slice.compile(count_up(10));
      cluster.network.break_connections("client");
      step.run({{"x", ones()}});
    }
    EXPECT_EQ(slice.read_state("w").as<float>()[0], 1.0f);
    EXPECT_EQ(cluster.controller.controller().counts().plans, 1u);
  });
}

TEST(LeaseTest, ASessionIsAttachedToWithItsKeyAlone) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    Connection connection =
        Connection::connect(*reactor, cluster.network.endpoint("other"), "sim:controller");
    for (const uint64_t id : {1, 2}) {
      auto request = connection.bootstrap<wire::Controller>().attachRequest();
      write(request.initVersion(), Version{});
      request.setId(id);
      request.setKey(id);
      const Error error = error_of(
          [&] { await<capnp::Response<wire::Controller::AttachResults>>(request.send()); });
      EXPECT_THAT(error.what(), HasSubstr(cat("there is no session ", id, " of this key")));
    }
    EXPECT_EQ(client.status().programs.size(), 1u);
  });
}

}  // namespace
}  // namespace gangway::leases_test
