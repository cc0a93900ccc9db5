// Slices of several clients, some of which wait for devices, on a simulated cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/session.h"
#include "gangway.h"
#include "runtime/base/rng.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/os/user.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

Executable add_one(const Slice& slice) {
  ProgramBuilder b("next", slice.mesh({{"data", slice.devices()}}));
  b.output("y", b.input("x", f32()) + 1.0);
  return slice.compile(b.build());
}

TEST(SimSlicesTest, AMeshSetsTheNumberOfDevicesAndWhichLieTogether) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {.hosts = 3, .devices_per_host = 3},
              [&](SimCluster& cluster, const Client& client) {
                const Slice slice = client.allocate({.mesh = {{"data", 3}, {"model", 2}}});
                EXPECT_EQ(slice.devices(), 6);
                EXPECT_EQ(cluster.controller.controller().counts().slices, 1u);
                const Error error = error_of(
                    [&] { client.allocate({.devices = 8, .mesh = {{"data", 3}, {"model", 2}}}); });
                EXPECT_THAT(error.message(), HasSubstr("expected axes of 8 devices in all, got 6"));
                EXPECT_THAT(error_of([&] { client.allocate({.mesh = {{"data", 0}}}); }).message(),
                            HasSubstr("axis \"data\": expected a size of 1"));
              });
}

TEST(SimSlicesTest, AWaitShowsInTheStatusAndEndsWhenDevicesAreGivenBack) {
  auto reactor = Reactor::make_simulated({.seed = 4});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    std::optional<Slice> held = client.allocate({.devices = 3, .exclusive = true});
    const Client other = cluster.connect("other");
    const Error refused = error_of([&] { other.allocate({.devices = 2, .exclusive = true}); });
    EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(refused.message(),
                HasSubstr(cat("client 1 of ", own_user_name(), " holds 3 devices")));
    bool got = false;
    Fiber waits = reactor->spawn("wait", [&] {
      const Slice slice = other.allocate({.devices = 2, .exclusive = true, .wait_ms = 60'000});
      got = true;
    });
    pass(*reactor, 2500 * kMillisecond);
    EXPECT_FALSE(got);
    const std::vector<ProgramStatus> programs = client.status().programs;
    ASSERT_THAT(programs, SizeIs(2));
    EXPECT_EQ(programs[0].waits_for, "");
    EXPECT_THAT(programs[1].waits_for, HasSubstr("2 devices, for 2."));
    held.reset();
    waits.join();
    EXPECT_TRUE(got);
    other.close();
  });
}

TEST(SimSlicesTest, AClientThatIsCutOffOrClosedWaitsNoLonger) {
  auto reactor = Reactor::make_simulated({.seed = 5});
  with_client(*reactor, {.lease_ms = 2000}, [&](SimCluster& cluster, const Client& client) {
    const Slice held = client.allocate({.devices = 4, .exclusive = true});
    const Client cut = cluster.connect("cut"), closed = cluster.connect("closed");
    std::vector<std::string> ended;
    const auto wait = [&](const Client& who) {
      return reactor->spawn("wait", [&ended, &who] {
        ended.push_back(to_string(error_of([&] {
                                    who.allocate(
                                        {.devices = 4, .exclusive = true, .wait_ms = 600'000});
                                  }).kind()));
      });
    };
    Fiber first = wait(cut), second = wait(closed);
    pass(*reactor, 100 * kMillisecond);
    EXPECT_THAT(cluster.controller.controller().program_counts(), SizeIs(3));
    closed.close();
    second.join();
    EXPECT_THAT(ended, ElementsAre("cancelled"));
    cluster.cut_off_client("cut");
    first.join();
    pass(*reactor, 1000 * kMillisecond);
    EXPECT_EQ(cluster.controller.controller().program_counts()[0].waits_for, "");
    EXPECT_EQ(cluster.controller.controller().counts().slices, 1u);
    cut.close();
  });
}

// Clients take slices of any size for any time, and each one gets the slice that it waits for.
TEST(SimSlicesTest, EverybodyIsServedWhateverTheOthersAskFor) {
  auto reactor = Reactor::make_simulated({.seed = tests::test_seed()});
  with_client(
      *reactor, {.hosts = 4, .devices_per_host = 4, .timed_only = true},
      [&](SimCluster& cluster, const Client&) {
        int served = 0;
        std::vector<Client> clients;
        for (int i = 0; i < 6; ++i) clients.push_back(cluster.connect(cat("c", i)));
        {
          FiberGroup fibers(*reactor);
          WaitQueue done;
          for (uint64_t i = 0; i < clients.size(); ++i) {
            fibers.spawn("client", [&, i, rng = reactor->rng().fork(100 + i)]() mutable {
              for (int k = 0; k < 20; ++k) {
                // The first client asks for the whole cluster, again and again.
                const int64_t devices = i == 0 ? 16 : 1 + static_cast<int64_t>(rng.below(6));
                const Slice slice =
                    clients[i].allocate({.devices = devices, .exclusive = true, .wait_ms = 60'000});
                pass(*reactor, static_cast<int64_t>(rng.below(300)) * kMillisecond);
                ++served;
              }
              done.wake_all();
            });
          }
          while (served < 120) done.wait("for all slices");
        }
        EXPECT_EQ(served, 120);
        for (Client& client : clients) client.close();
        pass(*reactor, 1000 * kMillisecond);
        EXPECT_EQ(cluster.controller.controller().counts().slices, 0u);
      });
}

TEST(SimSlicesTest, AHostThatIsKilledAndComesBackHasItsNameAndRunsNewSlices) {
  auto reactor = Reactor::make_simulated({.seed = 6});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    const Slice old = client.allocate({.devices = 4});
    const Executable broken = add_one(old);
    EXPECT_EQ(broken.run({{"x", 1.0f}})["y"].item<float>(), 2.0f);
    for (int again = 0; again < 3; ++again) {
      cluster.kill(1);
      pass(*reactor, 100 * kMillisecond);
      EXPECT_THAT(client.status().hosts, SizeIs(1));
      cluster.start_again(1);
      const std::vector<HostStatus> hosts = client.status().hosts;
      ASSERT_THAT(hosts, SizeIs(2));
      EXPECT_EQ(hosts[1].name, "host-1");
      EXPECT_EQ(hosts[1].runs_done, 0u);
      // The old slice does not move to the new host, which serves new slices.
      const Error error = error_of([&] { broken.run({{"x", 1.0f}}).wait(); });
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(error.what(), HasSubstr("host-1"));
      EXPECT_EQ(add_one(client.allocate({.devices = 4})).run({{"x", 2.0f}})["y"].item<float>(), 3);
    }
    const std::string metrics = client.status().metrics;
    EXPECT_THAT(metrics, HasSubstr("gangway_runs_done_total{host=\"host-1\"} 4\n"));
    EXPECT_THAT(metrics, HasSubstr("gangway_hosts_lost_total 3\n"));
  });
}

TEST(SimSlicesTest, AHostWhoseExecutorIsToldToEndIsNotCountedAsLost) {
  auto reactor = Reactor::make_simulated({.seed = 6});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    const Executable broken = add_one(client.allocate({.devices = 4}));
    cluster.executors[1].reset();
    EXPECT_THAT(client.status().hosts, SizeIs(1));
    EXPECT_THAT(error_text_of([&] { broken.run({{"x", 1.0f}}).wait(); }),
                HasSubstr("host \"host-1\" is gone: its executor was told to end"));
    EXPECT_THAT(client.status().metrics, HasSubstr("gangway_hosts_lost_total 0\n"));
  });
}

HostStatus host_status(const Client& client, const std::string& name) {
  for (const HostStatus& host : client.status().hosts) {
    if (host.name == name) return host;
  }
  ADD_FAILURE() << name << " is not there";
  return {};
}

TEST(SimSlicesTest, ADrainedHostKeepsItsProgramsAndGetsNoOthersAlsoWhenItComesBack) {
  auto reactor = Reactor::make_simulated({.seed = 7});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    {
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = add_one(slice);
      client.drain("host-1");
      EXPECT_EQ(step.run({{"x", 1.0f}})["y"].item<float>(), 2.0f) << "what is there goes on";
      EXPECT_TRUE(host_status(client, "host-1").is_draining);
      EXPECT_FALSE(host_status(client, "host-1").is_drained);
      EXPECT_FALSE(host_status(client, "host-0").is_draining);
      const Error error = error_of([&] { client.allocate({.devices = 4}); });
      EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
      EXPECT_THAT(error.message(), HasSubstr("draining hosts: host-1"));
    }
    pass(*reactor, 100 * kMillisecond);
    EXPECT_TRUE(host_status(client, "host-1").is_drained);
    cluster.kill(1);
    cluster.start_again(1);
    EXPECT_TRUE(host_status(client, "host-1").is_drained) << "as nobody has undrained it";
    // A client that waits for the host is served as soon as it is undrained.
    bool got = false;
    Fiber waits = reactor->spawn("wait", [&] {
      const Slice slice = client.allocate({.devices = 4, .wait_ms = 60'000});
      EXPECT_EQ(add_one(slice).run({{"x", 2.0f}})["y"].item<float>(), 3.0f);
      got = true;
    });
    pass(*reactor, 5000 * kMillisecond);
    EXPECT_FALSE(got);
    client.undrain("host-1");
    waits.join();
    EXPECT_TRUE(got);
    EXPECT_FALSE(host_status(client, "host-1").is_draining);
  });
}

TEST(SimSlicesTest, AHostIsForgottenOnlyWhenItIsGone) {
  auto reactor = Reactor::make_simulated({.seed = 8});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    EXPECT_THAT(error_of([&] { client.forget("host-1"); }).message(),
                HasSubstr("host \"host-1\" is there"));
    EXPECT_THAT(error_of([&] { client.forget("host-7"); }).message(),
                HasSubstr("expected one of host-0, host-1"));
    client.drain("host-1");
    cluster.kill(1);
    pass(*reactor, 100 * kMillisecond);
    client.forget("host-1");
    EXPECT_THAT(error_of([&] { client.forget("host-1"); }).message(),
                HasSubstr("expected one of host-0"));
    cluster.start_again(1);
    EXPECT_FALSE(host_status(client, "host-1").is_draining) << "it is another, of the same name";
  });
}

TEST(SimSlicesTest, AWaitForASliceReportsItsReasonAndCanBeStopped) {
  auto reactor = Reactor::make_simulated({.seed = 9});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& client) {
    std::optional<Slice> held = client.allocate({.devices = 3, .exclusive = true});
    const Client other = cluster.connect("other");
    std::vector<std::string> told;
    const SliceOptions wanted{.devices = 2,
                              .exclusive = true,
                              .wait_ms = 60'000,
                              .on_wait = [&](const std::string& what) { told.push_back(what); }};
    SliceOptions impatient = wanted;
    impatient.on_wait = [](const std::string&) { throw Error(ErrorKind::kCancelled, "enough"); };
    EXPECT_EQ(error_of([&] { other.allocate(impatient); }).message(), "enough");
    pass(*reactor, 100 * kMillisecond);
    EXPECT_EQ(client.status().programs.at(1).waits_for, "") << "it waits no longer";
    Fiber gives_back = reactor->spawn("give back", [&] {
      pass(*reactor, 2500 * kMillisecond);
      held.reset();
    });
    const Slice slice = other.allocate(wanted);
    gives_back.join();
    ASSERT_THAT(told, SizeIs(2));
    EXPECT_THAT(told[0], StartsWith("2 devices, for "));
    EXPECT_THAT(told[1], HasSubstr(cat(": client 1 of ", own_user_name(), " holds 3 devices")));
    EXPECT_EQ(cluster.controller.controller().counts().slices, 1u);
    // A client that is closed while it waits leaves nothing behind.
    const Client third = cluster.connect("third");
    Fiber waits = reactor->spawn("wait", [&] {
      EXPECT_EQ(
          error_of([&] {
            third.allocate(
                {.devices = 4, .exclusive = true, .wait_ms = 60'000, .on_wait = wanted.on_wait});
          }).kind(),
          ErrorKind::kCancelled);
    });
    pass(*reactor, 1500 * kMillisecond);
    third.close();
    waits.join();
    EXPECT_EQ(cluster.controller.controller().counts().slices, 1u);
    other.close();
  });
}

}  // namespace
}  // namespace gangway
