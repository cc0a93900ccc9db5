// Programs whose temporaries lie over one another, on devices that they share in part: over the
// production objects, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "controller/scheduler/policies/policy.h"
#include "gangway.h"
#include "sim/sim_cluster.h"
#include "tests/sim/sim_time.h"
#include "tests/support/order_check.h"
#include "tests/support/seed.h"

namespace gangway::overlay_test {
namespace {

constexpr int kHosts = 3, kDevicesPerHost = 2, kSteps = 6;
constexpr int64_t kDevices = 4;  // Devices of each program; there are six.

// Each layer is several sections; an all-reduce and an update follow the last layer. Rows of
// several layers are temporaries throughout a step.
Program trainer(const std::string& name, int64_t width, int layers) {
  const Mesh mesh{{{"data", kDevices}}};
  const int64_t rows = 8 * kDevices;
  ProgramBuilder b(name, mesh);
  const Value w = b.state("w", normal(f32({width, width}), 0.3));
  const Value x = b.input("x", f32({rows, width}), {{"data", shard(0)}});
  Value h = x, kept = x;
  for (int layer = 0; layer < layers; ++layer) {
    h = timed(tanh(dot(h, w)), 300);
    kept = kept + h;  // Keeps every layer's rows.
  }
  const Value update = dot(transpose(kept), h) * (1.0 / static_cast<double>(rows));
  b.update(w, w - update * 0.05);
  b.output("loss", mean(mean(h * h)));
  return b.build();
}

struct Trained {
  std::vector<float> losses;
  std::string error;
  int64_t temporaries = 0;  // Bytes on each device.
};

HostTensor batch(int64_t width, int step) {
  std::vector<float> values;
  for (int64_t i = 0; i < 8 * kDevices * width; ++i)
    values.push_back(static_cast<float>((i * 7 + step * 13) % 29) / 29 - 0.5f);
  return HostTensor::of<float>({8 * kDevices, width}, values);
}

struct What {
  int64_t width = 8;
  int layers = 2;
};
const std::vector<What> kPrograms = {{8, 2}, {16, 3}, {12, 5}};

// All programs begin together.
struct Start {
  WaitQueue changed;
  size_t compiled = 0;
  bool may_run = false;
};

// Steps of one program, two of them enqueued at any time.
void train(const Client& client, const What& what, Trained& trained, Start& start) {
  const Slice slice = client.allocate({.devices = kDevices});
  const Executable step = slice.compile(trainer("trainer", what.width, what.layers),
                                        CompileOptions{.runs_in_flight_max = 2});
  const DeviceNeed need = step.memory().devices.at(0);
  trained.temporaries = std::max(need.overlaid, need.arena);
  ++start.compiled;
  start.changed.wake_all();
  while (!start.may_run) start.changed.wait("for the other programs");
  std::vector<gangway::Run> runs;
  for (int i = 0; i < kSteps; ++i) runs.push_back(step.run({{"x", batch(what.width, i)}}));
  for (const gangway::Run& run : runs) trained.losses.push_back(run["loss"].item<float>());
}

struct Seen {
  std::vector<Trained> programs;
  std::vector<int64_t> reserved;  // Bytes that the controller reserves while all programs run.
  std::vector<int64_t> in_use;    // Bytes that the executors use on each device.
  std::string broken;             // Violation of the order in the devices' logs.
};

Seen train_together(uint64_t seed, const std::vector<What>& programs, SimClusterOptions options) {
  const auto reactor = Reactor::make_simulated({.seed = seed, .time_limit_ns = 60 * kSecond});
  options.hosts = kHosts;
  options.devices_per_host = kDevicesPerHost;
  options.order_log = std::make_shared<OrderLog>();
  Seen seen;
  seen.programs.resize(programs.size());
  reactor->run([&] {
    SimCluster cluster(*reactor, options);
    Start start;
    std::vector<Fiber> fibers;
    for (size_t i = 0; i < programs.size(); ++i) {
      fibers.push_back(reactor->spawn(cat("program ", i), [&, i] {
        Client client = cluster.connect(cat("client-", i));
        try {
          train(client, programs[i], seen.programs[i], start);
        } catch (const Error& error) {
          seen.programs[i].error = error.what();
        }
        client.close();
      }));
    }
    while (start.compiled < programs.size()) start.changed.wait("for all programs");
    Client looker = cluster.connect("looker");
    for (const HostStatus& host : looker.status().hosts) seen.reserved.push_back(host.memory_used);
    looker.close();
    for (const auto& executor : cluster.executors) {
      for (uint32_t d = 0; d < kDevicesPerHost; ++d)
        seen.in_use.push_back(executor->host().bytes_in_use(d));
    }
    start.may_run = true;
    start.changed.wake_all();
    for (Fiber& fiber : fibers) fiber.join();
    WaitQueue().wait_until_ns("for hosts to hear of it", reactor->clock().now_ns() + kSecond);
    for (const auto& executor : cluster.executors) {
      for (uint32_t d = 0; d < kDevicesPerHost; ++d) EXPECT_EQ(executor->host().bytes_in_use(d), 0);
    }
  });
  seen.broken = broken_order(*options.order_log, RunsAre::kPerhapsCut);
  return seen;
}

std::vector<float> losses_alone(const What& what) {
  return train_together(1, {what}, {}).programs[0].losses;
}

TEST(OverlayTest, ProgramsThatOverlapInPartEndWithTheLossesThatTheyHaveAlone) {
  std::vector<std::vector<float>> alone;
  for (const What& what : kPrograms) alone.push_back(losses_alone(what));
  const uint64_t first = tests::test_seed();
  for (uint64_t seed = first; seed < first + 40; ++seed) {
    std::vector<What> programs(kPrograms.begin(), kPrograms.begin() + 2 + seed % 2);
    const std::string policy = policy_names()[seed % policy_names().size()];
    const Seen seen = train_together(seed, programs, {.policy = policy, .overlay_memory = true});
    EXPECT_EQ(seen.broken, "") << "seed " << seed;
    for (size_t i = 0; i < programs.size(); ++i) {
      EXPECT_EQ(seen.programs[i].error, "") << "seed " << seed;
      EXPECT_EQ(seen.programs[i].losses, alone[i]) << "seed " << seed << ", program " << i;
    }
  }
}

TEST(OverlayTest, DevicesGiveOutTheLargestOfTheTemporariesAndNotTheirSum) {
  const Seen own = train_together(7, kPrograms, {}),
             overlaid = train_together(7, kPrograms, {.overlay_memory = true});
  int64_t saved_most = 0;
  for (size_t d = 0; d < own.in_use.size(); ++d) {
    const int64_t saved = own.in_use[d] - overlaid.in_use[d];
    EXPECT_GE(saved, 0);
    saved_most = std::max(saved_most, saved);
  }
  // A device of two programs saves the smaller one's temporaries.
  std::vector<int64_t> temporaries;
  for (const Trained& program : overlaid.programs) temporaries.push_back(program.temporaries);
  std::sort(temporaries.begin(), temporaries.end());
  EXPECT_GE(saved_most, temporaries[0]);
  // The controller reserves the bytes that the fullest device of each host has given out.
  for (const Seen* seen : {&own, &overlaid}) {
    for (size_t host = 0; host < kHosts; ++host) {
      EXPECT_EQ(seen->reserved[host], std::max(seen->in_use[2 * host], seen->in_use[2 * host + 1]));
    }
  }
}

}  // namespace
}  // namespace gangway::overlay_test
