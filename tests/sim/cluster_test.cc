// The real controller, executors and client logic in one thread on virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/objects.h"
#include "gangway.h"
#include "protocol/rpc_values.h"
#include "runtime/fibers/await.h"
#include "runtime/net/server.h"
#include "runtime/observe/trace.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"
#include "tests/support/error_of.h"
#include "tests/support/golden/trace_hash.h"

namespace gangway::cluster_test {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;
using testing::HasSubstr;

Program count_up(const Mesh& mesh) {
  ProgramBuilder b("count_up", mesh);
  Value w = b.state("w", zeros(f32({8})));
  Value x = b.input("x", f32({16, 8}), {{"data", shard(0)}});
  Value next = w + sum(x, {0});
  b.update(w, next);
  b.output("sum", sum(next, {0}));
  return b.build();
}

HostTensor ones() { return HostTensor::of<float>({16, 8}, std::vector<float>(128, 1.0f)); }

// Number of writes of the controller to this host.
uint64_t writes_to(SimCluster& cluster, const std::string& host) {
  return cluster.controller.controller()
      .tables()
      .metrics.counter("gangway_frame_writes_total", "", {{"host", host}})
      .value();
}

// Trains five steps; returns the hash of their trace, and their duration in virtual time.
std::pair<Hash128, int64_t> train(uint64_t seed) {
  auto reactor = Reactor::make_simulated({.seed = seed});
  Tracer tracer(reactor->clock(), "simulation");
  TraceAttachment attached = tracer.attach("reactor");
  with_client(*reactor, {.tracer = &tracer}, [&](SimCluster&, const Client& client) {
    Slice slice = client.allocate({.devices = 4});
    Executable step = slice.compile(count_up(slice.mesh({{"data", 4}})));
    std::vector<Run> runs;
    for (int i = 0; i < 5; ++i) runs.push_back(step.run({{"x", ones()}}));
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(runs[static_cast<size_t>(i)]["sum"].item<float>(),
                128.0f * static_cast<float>(i + 1));
    }
  });
  return {trace_hash(tracer.drain()), reactor->clock().now_ns()};
}

TEST(SimClusterTest, ATrainingStepRunsOnVirtualTimeAndRepeatsFromItsSeed) {
  const auto first = train(7);
  const auto again = train(7);
  EXPECT_EQ(first, again);
  EXPECT_NE(first.second, train(8).second) << "the seed decides the network's delays";
}

TEST(SimClusterTest, TwoProcessesWithOneSeedGiveTheSameTrace) {
  const auto here = train(11);
  int out[2];
  ASSERT_EQ(pipe(out), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto there = train(11);
    _exit(::write(out[1], &there, sizeof there) == sizeof there ? 0 : 1);
  }
  std::pair<Hash128, int64_t> there;
  ASSERT_EQ(::read(out[0], &there, sizeof there), static_cast<ssize_t>(sizeof there));
  waitpid(child, nullptr, 0);
  EXPECT_EQ(here, there);
}

TEST(SimClusterTest, TheMetricsSayWhatARunMovedOverEachClassOfLink) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {}, [&](SimCluster&, const Client& client) {
    Slice slice = client.allocate({.devices = 4});
    const Executable step = slice.compile(count_up(slice.mesh({{"data", 4}})));
    step.run({{"x", slice.from_host(ones())}}).wait();  // Inline it would go with the run.
    // Hosts report their counts with their heartbeats, one a second.
    WaitQueue().wait_until_ns("for heartbeats", reactor->clock().now_ns() + 2'000'000'000);
    // Each device takes 128 B of x from the client. In the all-reduce the host's first device reads
    // 32 B of the second, sends as much to the other host, and the second reads the result.
    const std::string metrics = client.status().metrics;
    for (const char* host : {"host-0", "host-1"}) {
      const auto line = [&](const char* link, int bytes) {
        return HasSubstr(
            cat("gangway_link_bytes_total{host=\"", host, "\",link=\"", link, "\"} ", bytes, "\n"));
      };
      EXPECT_THAT(metrics, line("host", 2 * (128 + 32)));
      EXPECT_THAT(metrics, line("island", 32));
      EXPECT_THAT(metrics, line("between", 0));
    }
  });
}

TEST(SimClusterTest, ResultsThatAreLetGoTogetherAreOneFrameForTheControllerAndForEachHost) {
  const auto reactor = Reactor::make_simulated({.seed = 5});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    const Slice slice = client.allocate({.devices = 4});
    ProgramBuilder b("outputs", slice.mesh({{"data", 4}}));
    const Value x = b.input("x", f32());
    for (int i = 0; i < 4; ++i) b.output(cat("y", i), x + double(i));
    const Executable executable = slice.compile(b.build());
    ProcessCounts before;
    {
      const gangway::Run run = executable.run({{"x", 1.0f}});
      run.wait();
      before = cluster.controller_counts();
    }
    WaitQueue().wait_until_ns("for hosts to hear of it", reactor->clock().now_ns() + 10'000'000);
    EXPECT_EQ(cluster.controller.controller().counts().arrays, 0u);
    EXPECT_EQ(cluster.controller_counts().frames_in - before.frames_in, 1u);
    EXPECT_EQ(cluster.controller_counts().frames_out - before.frames_out, 2u);
  });
}

TEST(SimClusterTest, CopiesOfHostTensorsGoWithThePlanThatTheyAreFor) {
  auto reactor = Reactor::make_simulated({.seed = 7});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    const auto arrays = [&] {
      pass(*reactor, kSecond);
      return cluster.controller.controller().counts().arrays;
    };
    const Slice slice = client.allocate({.devices = 4});
    const Program program = count_up(slice.mesh({{"data", 4}}));
    const Array x = slice.from_host(ones());
    const Executable step = slice.compile(program);
    {
      const Executable other = slice.compile(program);
      step.run({{"x", x}}).wait();
      other.run({{"x", x}}).wait();
      EXPECT_EQ(arrays(), 2u) << "a copy of x for each";
    }
    EXPECT_EQ(arrays(), 1u) << "while x is held";
    const auto copy = x.impl()->placed.begin()->second;
    EXPECT_EQ(step.run({{"x", x}})["sum"].item<float>(), 3 * 128.0f);
    EXPECT_EQ(arrays(), 1u);
    EXPECT_EQ(x.impl()->placed.begin()->second, copy) << "the copy is used again";
  });
}

TEST(SimClusterTest, APrepareAndItsGrantAreOneWriteToEachHost) {
  const auto reactor = Reactor::make_simulated({.seed = 6});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    const Slice slice = client.allocate({.devices = 4});
    const Executable step = slice.compile(count_up(slice.mesh({{"data", 4}})));
    const gangway::Run kept = step.run({{"x", ones()}});
    kept.wait();
    const uint64_t first = writes_to(cluster, "host-0"), second = writes_to(cluster, "host-1");
    const uint64_t frames = cluster.controller_counts().frames_out;
    const gangway::Run run = step.run({{"x", ones()}});
    run.wait();
    EXPECT_EQ(cluster.controller_counts().frames_out - frames, 2u * 2 + 1) << "and the client's";
    EXPECT_EQ(writes_to(cluster, "host-0") - first, 1u);
    EXPECT_EQ(writes_to(cluster, "host-1") - second, 1u);
  });
}

TEST(SimClusterTest, AProgramOpByOpNeverWaitsForAReplyAndItsCallsTravelTogether) {
  constexpr int kOps = 64;
  const auto reactor = Reactor::make_simulated({.seed = 6});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    const Slice slice = client.allocate({.devices = 4});
    ProgramBuilder b("next", slice.mesh({{"data", 4}}));
    b.output("y", b.input("x", f32()) + 1.0);
    const Executable next = slice.compile(b.build(), CompileOptions{.runs_in_flight_max = kOps});
    const uint64_t writes_before = writes_to(cluster, "host-0");
    const int64_t began_ns = reactor->clock().now_ns();
    std::vector<Array> values{next.run({{"x", 0.0f}})["y"]};  // Kept, so nothing is freed.
    for (int op = 1; op < kOps; ++op) values.push_back(next.run({{"x", values.back()}})["y"]);
    EXPECT_EQ(reactor->clock().now_ns(), began_ns) << "each op was enqueued without any answer";
    EXPECT_EQ(values.back().item<float>(), kOps);
    EXPECT_LE(writes_to(cluster, "host-0") - writes_before, 4u) << "of 64 prepares and grants";
  });
}

TEST(SimClusterTest, ResourcesOfADeadClientAreFreedWhenItsLeaseEnds) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {.lease_ms = 2000}, [&](SimCluster& cluster, const Client& client) {
    Slice slice = client.allocate({.devices = 4});
    Executable step = slice.compile(count_up(slice.mesh({{"data", 4}})));
    auto run = step.run({{"x", ones()}});
    run.wait();
    EXPECT_EQ(cluster.controller.controller().counts().plans, 1u);
    cluster.cut_off_client("client");
    WaitQueue().wait_until_ns("for a second", reactor->clock().now_ns() + 1'000'000'000);
    EXPECT_EQ(cluster.controller.controller().counts().plans, 1u);
    WaitQueue().wait_until_ns("for two seconds", reactor->clock().now_ns() + 2'000'000'000);
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
    EXPECT_EQ(cluster.executors[0]->host().bytes_in_use(0), 0);
  });
}

TEST(SimClusterTest, RunsAreNeitherLostNorRepeatedWhereFramesAndTheirConnectionsAre) {
  auto reactor = Reactor::make_simulated({.seed = 9});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    using Kind = FrameFault::Kind;
    cluster.network.set_frame_fault(
        [faults = reactor->rng().fork(1)](const std::string&, const std::string&) mutable {
          const Kind kinds[] = {Kind::kDrop, Kind::kDuplicate, Kind::kSwap, Kind::kBreak};
          return FrameFault{faults.chance(0.1) ? kinds[faults.below(4)] : Kind::kNothing};
        });
    Slice slice = client.allocate({.devices = 4});
    Executable step = slice.compile(count_up(slice.mesh({{"data", 4}})));
    std::vector<gangway::Run> runs;
    for (int i = 0; i < 30; ++i) runs.push_back(step.run({{"x", ones()}}));
    for (int i = 0; i < 30; ++i) {
      EXPECT_EQ(runs[static_cast<size_t>(i)]["sum"].item<float>(),
                128.0f * static_cast<float>(i + 1));
    }
    EXPECT_THAT(client.status().metrics,
                ContainsRegex("gangway_frame_reconnects_total.host=\"host-0\". [1-9]"));
  });
}

TEST(SimClusterTest, AControllerThatReadsNothingIsGivenUpByItsClient) {
  auto reactor = Reactor::make_simulated({.seed = 5});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    Slice slice = client.allocate({.devices = 4});
    Executable step = slice.compile(count_up(slice.mesh({{"data", 4}})));
    Array sum = step.run({{"x", ones()}})["sum"];
    cluster.network.partition("client", "controller");
    internal::Session& session = *sum.impl()->session;
    for (uint64_t i = 1; i <= 40; ++i) {  // A megabyte each.
      const std::vector<uint64_t> positions(size_t{1} << 17);
      session.send_run(
          {.run = RunId(i), .source_positions = positions}, [](const RunDoneFrame&) {}, false);
    }
    const Error error = error_of([&] { step.run({{"x", ones()}}).wait(); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("the controller is gone"));
    cluster.network.heal("client", "controller");
  });
}

TEST(SimClusterTest, ASilentExecutorIsFoundAndNamedAndLearnsOfItOnceItGoesOn) {
  for (const bool stands_still : {false, true}) {
    auto reactor = Reactor::make_simulated({.seed = 5});
    with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
      Slice slice = client.allocate({.devices = 4});
      const Program program = count_up(slice.mesh({{"data", 4}}));
      Executable step = slice.compile(program);
      step.run({{"x", ones()}}).wait();
      if (stands_still) {
        cluster.stop(1);
      } else {
        cluster.network.partition("host-1", "controller");
      }
      Fiber compiles = reactor->spawn("compile", [&] {
        const Error told = error_of([&] { slice.compile(program); });
        EXPECT_EQ(told.kind(), ErrorKind::kUnavailable);
        EXPECT_THAT(told.what(), HasSubstr("\"host-1\" is gone: it has said nothing"));
      });
      const Error told = error_of([&] { step.run({{"x", ones()}}).wait(); });
      EXPECT_EQ(told.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(told.what(), HasSubstr("\"host-1\" is gone: it has said nothing"));
      compiles.join();
      if (stands_still) {
        cluster.resume(1);
      } else {
        cluster.network.heal("host-1", "controller");
      }
      const Error why_ended = error_of([&] {
        cluster.executors[1]->disconnected().await_until_ns(reactor->clock().now_ns() +
                                                            1'000'000'000);
      });
      EXPECT_EQ(why_ended.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(why_ended.what(),
                  HasSubstr("\"host-1\": its connection to the controller ended"));
      EXPECT_FALSE(cluster.executors[0]->disconnected().ready());
    });
  }
}

TEST(SimClusterTest, AHostThatIsCutOffIsSuspectAndItsPeerSaysInWhatItWaits) {
  auto reactor = Reactor::make_simulated({.seed = 5});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    const auto pass = [&](int64_t seconds) {
      WaitQueue().wait_until_ns("for time to pass",
                                reactor->clock().now_ns() + seconds * 1'000'000'000);
    };
    Slice slice = client.allocate({.devices = 4});
    Executable step = slice.compile(count_up(slice.mesh({{"data", 4}})));
    step.run({{"x", ones()}}).wait();
    cluster.network.partition("host-1", "controller");
    gangway::Run run = step.run({{"x", ones()}});
    pass(4);
    std::vector<HostStatus> hosts = client.status().hosts;
    ASSERT_EQ(hosts.size(), 2u);
    EXPECT_GE(hosts[1].suspect_ms, 2000);
    EXPECT_EQ(hosts[0].suspect_ms, 0);
    ASSERT_EQ(hosts[0].stuck.size(), 2u) << "both devices wait for those of the other host";
    EXPECT_THAT(hosts[0].stuck[0], HasSubstr("device 0 is stuck in all_reduce of f32[8] at "));
    EXPECT_THAT(hosts[0].stuck[0], HasSubstr("where it waits for other devices"));
    cluster.network.heal("host-1", "controller");
    EXPECT_EQ(run["sum"].item<float>(), 256.0f);
    pass(2);
    hosts = client.status().hosts;
    EXPECT_EQ(hosts[1].suspect_ms, 0);
    EXPECT_TRUE(hosts[0].stuck.empty());
  });
}

TEST(SimClusterTest, ALongChainFitsOnTheStackOfTheFiberThatCompilesIt) {
  auto reactor = Reactor::make_simulated();
  with_client(*reactor, {}, [&](SimCluster&, const Client& client) {
    Slice slice = client.allocate({.devices = 4});
    ProgramBuilder b("chain", slice.mesh({{"data", 4}}));
    Value x = b.input("x", f32({8}), {{"data", shard(0)}});
    // Nothing decides how the chain is cut until its end meets x.
    Value chain = b.builder().constant(f32({8}), 0);
    for (int i = 0; i < 20'000; ++i) chain = chain + 1.0;
    b.output("sum", sum(x + chain));
    Executable program = slice.compile(b.build());
    const HostTensor zeros = HostTensor::of<float>({8}, std::vector<float>(8));
    EXPECT_EQ(program.run({{"x", zeros}})["sum"].item<float>(), 160'000.0f);
  });
}

// The controller's answer to a client of this version on this machine.
std::string answer_to(const Version& version, const Machine& machine) {
  auto reactor = Reactor::make_simulated();
  return reactor->run([&]() -> std::string {
    SimCluster cluster(*reactor, {.hosts = 1});
    Connection connection =
        Connection::connect(*reactor, cluster.network.endpoint("other"), "sim:controller");
    auto request = connection.bootstrap<wire::Controller>().connectRequest();
    write(request.initVersion(), version);
    write(request.initMachine(), machine);
    request.setName("other");
    std::string text = "accepted";
    try {
      await<capnp::Response<wire::Controller::ConnectResults>>(request.send());
    } catch (const Error& error) {
      text = error.what();
    }
    return text;
  });
}

TEST(SimClusterTest, APeerOfAnotherVersionIsRefusedNamingBoth) {
  const std::string text = answer_to({.protocol = 99, .release = "9.9.9"}, this_machine());
  EXPECT_THAT(text, HasSubstr(cat("expected protocol ", kProtocolVersion, " (release ", kRelease,
                                  "), got protocol 99 (release 9.9.9)")));
}

TEST(SimClusterTest, APeerThatSharesNoMemoryIsRefused) {
  const std::string text = answer_to({}, {.identity = "elsewhere", .host = "far"});
  EXPECT_THAT(text, HasSubstr("shares no memory with the controller"));
}

}  // namespace
}  // namespace gangway::cluster_test
