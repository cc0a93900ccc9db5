// Several ranks on each simulated device, which a collective blocks until all members have come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "controller/scheduler/policies/policy.h"
#include "gangway.h"
#include "sim/sim_cluster.h"
#include "tests/support/error_of.h"
#include "tests/support/order_check.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

// The sum over all rows of x, which the first axis cuts, after `kernels` kernels of 100 us each.
Program summed(const Mesh& mesh, int kernels) {
  Builder f("sum", mesh);
  const AxisPlacements cuts = {{mesh.axes[0].name, shard(0)}};
  const int64_t rows = mesh.axes[0].size;
  Value x = f.parameter("x", f32({rows, 8}), cuts);
  for (int k = 0; k < kernels; ++k) x = timed(x, 100);
  f.result("y", sum(x));
  ProgramBuilder b("sums", mesh);
  const ProgramValue in = b.input_on(0, "x", f32({rows, 8}), cuts);
  b.output_of("y", b.call(0, "sum", std::make_shared<Function>(f.build()), {in})[0]);
  return b.build();
}

HostTensor ones(int64_t rows) {
  return HostTensor::of<float>({rows, 8}, std::vector<float>(static_cast<size_t>(rows) * 8, 1.0f));
}

// One client of a scene, with its runs over the whole cluster of two hosts of two devices.
struct Sums {
  int64_t ranks = 1;  // Ranks on each device.
  int kernels = 1;
  int runs = 10;
  bool by_axes = false;  // The mesh has two axes, so not all ranks of a device reduce together.
};

void run(SimCluster& cluster, const std::string& name, const Sums& sums, int& done) {
  const Client client = cluster.connect(name);
  {
    const int64_t devices = 4 * sums.ranks;
    const Slice slice = client.allocate({.devices = devices, .ranks_per_device = sums.ranks});
    const Mesh mesh = sums.by_axes ? slice.mesh({{"data", 4}, {"model", sums.ranks}})
                                   : slice.mesh({{"data", devices}});
    const Executable program =
        slice.compile(summed(mesh, sums.kernels), CompileOptions{.runs_in_flight_max = 4});
    const int64_t rows = mesh.axes[0].size;
    const Array x = slice.from_host(ones(rows));
    std::deque<gangway::Run> under_way;
    const auto finish = [&] {
      EXPECT_EQ(under_way.front()["y"].item<float>(), static_cast<float>(8 * rows));
      ++done;
      under_way.pop_front();
    };
    for (int i = 0; i < sums.runs; ++i) {
      under_way.push_back(program.run({{"x", x}}));
      if (under_way.size() == 4) finish();
    }
    while (!under_way.empty()) finish();
  }
  client.close();
}

struct Outcome {
  int done = 0;
  std::string broken;  // Violation of the order of tickets in the devices' logs.
  std::map<std::string, int64_t> busy_ns;
  int64_t took_ns = 0;
  uint64_t replay = 0;
};

Outcome run_all(const std::vector<Sums>& clients, const std::string& policy = "fair") {
  const auto reactor =
      Reactor::make_simulated({.seed = tests::test_seed(), .time_limit_ns = 600 * kSecond});
  const auto log = std::make_shared<OrderLog>();
  Outcome outcome;
  reactor->run([&] {
    SimCluster cluster(*reactor, {.policy = policy, .order_log = log});
    std::vector<Fiber> fibers;
    for (size_t i = 0; i < clients.size(); ++i) {
      fibers.push_back(reactor->spawn(cat("client ", i), [&, i] {
        run(cluster, cat("client ", i), clients[i], outcome.done);
      }));
    }
    for (Fiber& fiber : fibers) fiber.join();
    for (int host = 0; host < 2; ++host) {
      for (const auto& [name, ns] : cluster.host(host).busy_ns_by_program())
        outcome.busy_ns[name] += ns;
    }
    outcome.took_ns = reactor->clock().now_ns();
    outcome.replay = cluster.replay_hash();
  });
  outcome.broken = broken_order(*log);
  return outcome;
}

class SimRanksTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SimRanksTest, ProgramsOfDifferentlyManyRanksShareHeldDevicesInTheOrderOfTickets) {
  const Outcome all = run_all({{.ranks = 1, .kernels = 3, .runs = 60},
                               {.ranks = 2, .kernels = 2, .runs = 60},
                               {.ranks = 4, .kernels = 1, .runs = 60},
                               {.ranks = 2, .kernels = 1, .runs = 60, .by_axes = true},
                               {.ranks = 2, .kernels = 0, .runs = 60}},
                              GetParam());
  EXPECT_EQ(all.done, 5 * 60);
  EXPECT_EQ(all.broken, "");
}

INSTANTIATE_TEST_SUITE_P(Policies, SimRanksTest, ::testing::ValuesIn(policy_names()));

TEST(SimRanksTimeTest, RanksOfADeviceTakeTurnsOnItAndShareItsPartOfACollective) {
  const auto busy_ns = [](int64_t ranks, int kernels) {
    return run_all({{.ranks = ranks, .kernels = kernels, .runs = 1}}).busy_ns.at("sums");
  };
  // Each of four devices takes 100 us for each kernel of each rank, and its part of the all-reduce.
  // That grows with the number of members, but is not taken once for each rank.
  EXPECT_EQ(busy_ns(2, 10) - busy_ns(2, 5), 2 * (busy_ns(1, 10) - busy_ns(1, 5)));
  EXPECT_EQ(busy_ns(1, 10) - busy_ns(1, 5), 4 * 5 * 100'000);
  const int64_t alone_ns = busy_ns(1, 0), two_ns = busy_ns(2, 0);
  EXPECT_GT(two_ns, alone_ns);
  EXPECT_LT(two_ns, 2 * alone_ns);
}

TEST(SimRanksTimeTest, TheSameSeedRepeatsExactly) {
  const std::vector<Sums> clients = {{.ranks = 2, .kernels = 2}, {.ranks = 4}};
  EXPECT_EQ(run_all(clients).replay, run_all(clients).replay);
}

// A device's time counts once, however many ranks use it, and the ranks of one program do not
// compete: alone it has all the devices' time, and half of it if a program with one rank shares
// them.
TEST(SimRanksTimeTest, DevicesAreSharedByTimeNotByRanks) {
  const auto reactor =
      Reactor::make_simulated({.seed = tests::test_seed(), .time_limit_ns = 600 * kSecond});
  std::map<std::string, double> alone, used;
  reactor->run([&] {
    SimCluster cluster(*reactor, {.timed_only = true});
    const int64_t begin_ns = reactor->clock().now_ns();
    bool stop = false;
    const auto keep_busy = [&](const std::string& name, int64_t ranks) {
      const Client client = cluster.connect(name);
      {
        const Slice slice = client.allocate({.devices = 4 * ranks, .ranks_per_device = ranks});
        const Executable program = slice.compile(summed(slice.mesh({{"data", 4 * ranks}}), 20),
                                                 CompileOptions{.runs_in_flight_max = 4});
        const Array x = slice.from_host(ones(4 * ranks));
        std::deque<gangway::Run> under_way;
        while (!stop) {
          under_way.push_back(program.run({{"x", x}}));
          if (under_way.size() < 4) continue;
          under_way.front().wait();
          under_way.pop_front();
        }
        for (const gangway::Run& run : under_way) run.wait();
      }
      client.close();
    };
    const Client looker = cluster.connect("looker");
    const auto look = [&](int64_t at_s, std::map<std::string, double>& to) {
      WaitQueue().wait_until_ns("for shares", begin_ns + at_s * kSecond);
      for (const ProgramStatus& program : looker.status().programs) to[program.name] = program.used;
    };
    Fiber two = reactor->spawn("two", [&] { keep_busy("two", 2); });
    look(2, alone);
    Fiber one = reactor->spawn("one", [&] { keep_busy("one", 1); });
    look(5, used);
    stop = true;
    two.join();
    one.join();
    looker.close();
  });
  EXPECT_NEAR(alone.at("two"), 1, 0.02);
  EXPECT_NEAR(used.at("two"), 0.5, 0.02);
  EXPECT_NEAR(used.at("one"), 0.5, 0.02);
}

TEST(SimRanksTimeTest, ARunFailsWhereAHostWithItsRanksIsLostAndTheOthersGoOn) {
  const auto reactor =
      Reactor::make_simulated({.seed = tests::test_seed(), .time_limit_ns = 600 * kSecond});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client client = cluster.connect("client");
    {
      const Slice all = client.allocate({.devices = 8, .ranks_per_device = 2});
      // All devices are shared equally, so the slice gets those of host-0.
      const Slice half = client.allocate({.devices = 4, .ranks_per_device = 2});
      const Executable broken = all.compile(summed(all.mesh({{"data", 8}}), 1000));
      const Executable whole = half.compile(summed(half.mesh({{"data", 4}}), 1));
      const gangway::Run run = broken.run({{"x", ones(8)}});
      WaitQueue().wait_until_ns("for it to begin", reactor->clock().now_ns() + kSecond / 20);
      cluster.kill(1);
      const Error error = error_of([&] { run.wait(); });
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(error.what(), HasSubstr(SimCluster::host_name(1)));
      EXPECT_EQ(whole.run({{"x", ones(4)}})["y"].item<float>(), 32.0f);
      // The remaining devices run the same mesh with twice as many ranks each.
      const Slice again = client.allocate({.devices = 8, .ranks_per_device = 4});
      const Executable repaired = again.compile(summed(again.mesh({{"data", 8}}), 10));
      EXPECT_EQ(repaired.run({{"x", ones(8)}})["y"].item<float>(), 64.0f);
    }
    client.close();
    WaitQueue().wait_until_ns("for frees", reactor->clock().now_ns() + kSecond);
    EXPECT_EQ(cluster.executors[0]->host().bytes_in_use(0), 0);
  });
}

}  // namespace
}  // namespace gangway
