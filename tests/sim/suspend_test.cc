// Programs that leave their devices to others for a while: over the production objects, in virtual
// time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/shared_states.h"
#include "gangway.h"
#include "runtime/os/user.h"
#include "sim/sim_cluster.h"
#include "tests/sim/detached.h"
#include "tests/sim/sim_time.h"
#include "tests/support/error_of.h"
#include "tests/support/order_check.h"
#include "tests/support/seed.h"

namespace gangway::suspend_test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int64_t kDevices = 4, kRows = 8;

// "w" lies on each device, "m" is cut over them; "h" is an array that stays on the devices.
Program trainer(int64_t width) {
  const Mesh mesh{{{"data", kDevices}}};
  ProgramBuilder b("trainer", mesh);
  const Value w = b.state("w", normal(f32({width, width}), 0.3));
  const Value m = b.state("m", zeros(f32({kRows, width})), {{"data", shard(0)}});
  const Value x = b.input("x", f32({kRows, width}), {{"data", shard(0)}});
  const Value h = timed(tanh(dot(x, w)), 300);
  b.update(m, m * 0.9 + h);
  b.update(w, w - dot(transpose(h), m) * 0.01);
  b.output("h", h);
  b.output("loss", mean(mean(h * h)));
  return b.build();
}

HostTensor batch(int64_t width, int step) {
  std::vector<float> values;
  for (int64_t i = 0; i < kRows * width; ++i)
    values.push_back(static_cast<float>((i * 7 + step * 13) % 29) / 29 - 0.5f);
  return HostTensor::of<float>({kRows, width}, values);
}

std::vector<float> values(const HostTensor& tensor) {
  const std::span<const float> all = tensor.as<float>();
  return {all.begin(), all.end()};
}

std::vector<float> losses(const Executable& step, int64_t width, int first, int count) {
  std::vector<gangway::Run> runs;
  for (int i = first; i < first + count; ++i) runs.push_back(step.run({{"x", batch(width, i)}}));
  std::vector<float> told;
  for (const gangway::Run& run : runs) told.push_back(run["loss"].item<float>());
  return told;
}

ConnectOptions named(const std::string& name) {
  return {.name = name, .on_warning = [](const std::string&) {}};
}

// Losses of `steps` steps of an undisturbed program.
std::vector<float> losses_alone(int64_t width, int steps) {
  const auto reactor = Reactor::make_simulated({.seed = 1});
  return reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client client = cluster.connect("client");
    std::vector<float> told;
    {
      const Slice slice = client.allocate({.devices = kDevices});
      told = losses(slice.compile(trainer(width)), width, 0, steps);
    }
    client.close();
    return told;
  });
}

int64_t bytes_in_use(const SimCluster& cluster) {
  int64_t sum = 0;
  for (const auto& executor : cluster.executors) {
    for (uint32_t d = 0; executor != nullptr && d < 2; ++d) sum += executor->host().bytes_in_use(d);
  }
  return sum;
}

int64_t bytes_on_hosts(const SimCluster& cluster) {
  int64_t sum = 0;
  for (const auto& executor : cluster.executors)
    sum += executor == nullptr ? 0 : executor->host().host_bytes();
  return sum;
}

int64_t reserved(SimCluster& cluster, const std::string& name) {
  for (const ProgramCounts& program : cluster.controller.controller().program_counts()) {
    if (program.name == name) return program.memory_bytes;
  }
  return -1;
}

TEST(SuspendTest, ASuspendedProgramMakesRoomForAnotherAndKeepsTheBitsOfItsLosses) {
  constexpr int64_t kWidth = 512;  // w is 1 MiB on each device.
  const std::vector<float> alone = losses_alone(kWidth, 12);
  const auto reactor = Reactor::make_simulated({.seed = 5, .time_limit_ns = 60 * kSecond});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.memory_bytes = 10 << 20});
    const Client first = cluster.connect("first", named("first")),
                 second = cluster.connect("second", named("second"));
    {
      const Slice slice = first.allocate({.devices = kDevices}),
                  other = second.allocate({.devices = kDevices});
      const Executable step = slice.compile(trainer(kWidth));
      std::vector<float> told = losses(step, kWidth, 0, 4);
      EXPECT_EQ(error_of([&] { other.compile(trainer(kWidth)); }).kind(), ErrorKind::kOverloaded);
      const int64_t before = reserved(cluster, "first"), in_use = bytes_in_use(cluster);

      std::optional<gangway::Run> under_way = step.run({{"x", batch(kWidth, 4)}});
      pass(*reactor, kMillisecond / 4);
      EXPECT_FALSE(under_way->done());
      const int64_t bytes = second.suspend_program("first");
      EXPECT_TRUE(under_way->done()) << "the program was suspended behind it";
      told.push_back((*under_way)["loss"].item<float>());
      under_way.reset();
      pass(*reactor, kMillisecond);
      EXPECT_EQ(bytes, kDevices * (kWidth * kWidth + kRows * kWidth / kDevices) * 4);
      EXPECT_EQ(bytes_on_hosts(cluster), bytes);
      EXPECT_EQ(reserved(cluster, "first"), 0);
      pass(*reactor, kSecond);
      EXPECT_EQ(bytes_in_use(cluster), 0);
      const ProgramStatus status = first.status().programs.at(0);
      EXPECT_TRUE(status.suspended);
      EXPECT_EQ(status.host_bytes, bytes);
      EXPECT_THAT(first.status().metrics, HasSubstr("gangway_suspended_bytes{host=\"host-0\"} "));
      EXPECT_EQ(second.suspend_program("first"), bytes) << "it is so already";

      std::vector<gangway::Run> waiting;
      for (int i = 5; i < 9; ++i) waiting.push_back(step.run({{"x", batch(kWidth, i)}}));
      {
        const Executable another = other.compile(trainer(kWidth));
        EXPECT_EQ(losses(another, kWidth, 0, 12), alone);
        const Error refused = error_of([&] { second.resume_program("first"); });
        EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded);
        EXPECT_THAT(refused.what(),
                    ContainsRegex("resume: there is no room: needs [.0-9]+ MiB on host-0/device 0, "
                                  "where [.0-9]+ MiB of 10.0 MiB are free: [.0-9]+ MiB short; "
                                  "client 2 of [^ ]+ holds [.0-9]+ MiB"));
        EXPECT_TRUE(first.status().programs.at(0).suspended);
        EXPECT_EQ(bytes_on_hosts(cluster), bytes);
        EXPECT_FALSE(waiting.front().done());
      }
      second.close();
      first.resume_program("first");
      EXPECT_EQ(bytes_on_hosts(cluster), 0);
      for (const gangway::Run& run : waiting) told.push_back(run["loss"].item<float>());
      for (const float loss : losses(step, kWidth, 9, 3)) told.push_back(loss);
      EXPECT_EQ(told, alone);
      waiting.clear();
      pass(*reactor, kSecond);
      EXPECT_EQ(reserved(cluster, "first"), before);
      EXPECT_EQ(bytes_in_use(cluster), in_use);
      first.resume_program("first");  // It runs already.
    }
    first.close();
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
    pass(*reactor, kSecond);
    EXPECT_EQ(bytes_in_use(cluster), 0);
  });
}

TEST(SuspendTest, ArraysStayAndReadsAndWritesOfStatesWaitDuringASuspension) {
  constexpr int64_t kWidth = 16;
  const auto reactor = Reactor::make_simulated({.seed = 5, .time_limit_ns = 60 * kSecond});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    const Client client = cluster.connect("client", named("trainer")),
                 other = cluster.connect("other", named("other"));
    {
      const Slice slice = client.allocate({.devices = kDevices});
      const Executable step = slice.compile(trainer(kWidth));
      const gangway::Run run = step.run({{"x", batch(kWidth, 0)}});
      const std::vector<float> h = values(run["h"].to_host());
      const std::vector<float> m = values(slice.read_state("m"));
      const SharedStates shared = other.open_states("trainer");
      other.suspend_program("trainer");
      EXPECT_GT(reserved(cluster, "trainer"), 0) << "of the arrays";
      EXPECT_EQ(values(run["h"].to_host()), h);

      std::optional<std::vector<float>> read;
      bool is_written = false, is_compiled = false;
      const Snapshot snapshot = shared.latest();
      Fiber reads = reactor->spawn("read", [&] { read = values(slice.read_state("m")); });
      pass(*reactor, 10 * kMillisecond);
      Fiber writes = reactor->spawn("write", [&] {
        slice.write_state(
            "m", HostTensor::of<float>({kRows, kWidth}, std::vector<float>(kRows * kWidth, 0.5f)));
        is_written = true;
      });
      Fiber compiles = reactor->spawn("compile", [&] {
        slice.compile(trainer(kWidth));
        is_compiled = true;
      });
      const Error late =
          error_of([&] { step.run({{"x", batch(kWidth, 1)}}, {.time_limit_ms = 50}).wait(); });
      EXPECT_EQ(late.kind(), ErrorKind::kCancelled);
      EXPECT_THAT(late.what(), HasSubstr("not done within its limit of 50 ms: its program is "
                                         "suspended"));
      pass(*reactor, kSecond);
      EXPECT_FALSE(read || is_written || is_compiled || snapshot.done());

      other.resume_program("trainer");
      reads.join();
      writes.join();
      compiles.join();
      EXPECT_EQ(*read, m);
      EXPECT_EQ(values(snapshot.read("m")).size(), m.size());
      EXPECT_EQ(values(slice.read_state("m")).at(0), 0.5f);
      EXPECT_EQ(values(run["h"].to_host()), h);
    }
    client.close();
    other.close();
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
    pass(*reactor, kSecond);
    EXPECT_EQ(bytes_in_use(cluster), 0);
  });
}

TEST(SuspendTest, ARepeatedProgramIsSuspendedDetachedAttachedToAndResumed) {
  const auto reactor = Reactor::make_simulated({.seed = 3, .time_limit_ns = 200 * kSecond});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    Controller& controller = cluster.controller.controller();
    const Client first = cluster.connect("first", named("trainer"));
    const Client other = cluster.connect("other", named("other"));
    {
      const Slice slice = first.allocate({.devices = kDevices});
      const Executable step = slice.compile(falling(), CompileOptions{.runs_in_flight_max = 2});
      step.repeat(100, {{"lr", 0.5f}, {"step", Schedule::linear(0, 1)}});
      pass(*reactor, 20 * kMillisecond);
      other.suspend_program("trainer");
      first.detach();
    }
    const uint64_t done = controller.program_counts().at(0).runs_done;
    EXPECT_GT(done, 3u);
    EXPECT_LT(done, 100u);
    pass(*reactor, 100 * kSecond);
    EXPECT_EQ(controller.program_counts().at(0).runs_done, done) << "nobody goes on";
    const Client second = cluster.attach("second", named("trainer"));
    second.resume_program("trainer");
    const RepeatStatus status = second.executable("falling").repetition()->wait();
    EXPECT_EQ(status.done, 100);
    EXPECT_EQ(static_cast<float>(status.outputs.at(0).value), losses_of_a_client(cluster, 100)[99]);
    second.close();
    other.close();
    EXPECT_EQ(controller.counts().total(), 0u);
  });
}

TEST(SuspendTest, ASuspendedProgramCanBeStoppedAndEndsWhenItsClientIsLost) {
  const auto reactor = Reactor::make_simulated({.seed = 3, .time_limit_ns = 200 * kSecond});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.lease_ms = 1000});
    Controller& controller = cluster.controller.controller();
    const Client other = cluster.connect("other", named("other"));
    for (const bool is_lost : {false, true}) {
      const std::string endpoint = is_lost ? "lost" : "stopped";
      const Client client = cluster.connect(endpoint, named("trainer"));
      const Slice slice = client.allocate({.devices = kDevices});
      const Executable step = slice.compile(falling());
      step.repeat(1'000'000, {{"lr", 0.5f}, {"step", Schedule::linear(0, 1)}});
      pass(*reactor, 20 * kMillisecond);
      EXPECT_GT(other.suspend_program("trainer"), 0);
      if (is_lost) {
        cluster.cut_off_client(endpoint);
      } else {
        client.detach();
        const int64_t begin_ns = reactor->clock().now_ns();
        EXPECT_FALSE(other.stop_program("trainer", 30'000));
        EXPECT_LT(reactor->clock().now_ns() - begin_ns, kSecond);
      }
      pass(*reactor, 5 * kSecond);
      EXPECT_EQ(controller.counts().slices + controller.counts().plans + controller.counts().runs,
                0u);
      EXPECT_EQ(bytes_in_use(cluster), 0);
      EXPECT_EQ(bytes_on_hosts(cluster), 0);
      EXPECT_EQ(error_of([&] { other.resume_program("trainer"); }).kind(), ErrorKind::kInvalid);
      client.close();
    }
    other.close();
  });
}

TEST(SuspendTest, PlansOnAHostLostDuringASuspensionFailAndTheOthersResume) {
  constexpr int64_t kWidth = 16;
  const std::vector<float> alone = losses_alone(kWidth, 4);
  const auto reactor = Reactor::make_simulated({.seed = 3, .time_limit_ns = 200 * kSecond});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = 4, .host_timeout_ms = 1000});
    const Client client = cluster.connect("client", named("trainer"));
    {
      const Slice one = client.allocate({.devices = kDevices}),
                  two = client.allocate({.devices = kDevices});
      const Executable first = one.compile(trainer(kWidth)), second = two.compile(trainer(kWidth));
      std::vector<float> told = losses(first, kWidth, 0, 2);
      losses(second, kWidth, 0, 2);
      client.suspend_program("trainer");
      const gangway::Run waits = first.run({{"x", batch(kWidth, 2)}}),
                         fails = second.run({{"x", batch(kWidth, 2)}});
      cluster.vanish(3);
      const Error lost = error_of([&] { fails.wait(); });
      EXPECT_EQ(lost.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(lost.what(), HasSubstr("host-3"));
      EXPECT_FALSE(waits.done());
      client.resume_program("trainer");
      told.push_back(waits["loss"].item<float>());
      told.push_back(losses(first, kWidth, 3, 1)[0]);
      EXPECT_EQ(told, alone);
      EXPECT_EQ(error_of([&] { losses(second, kWidth, 3, 1); }).kind(), ErrorKind::kUnavailable);
    }
    client.close();
    pass(*reactor, kSecond);
    EXPECT_EQ(bytes_in_use(cluster), 0);
    EXPECT_EQ(bytes_on_hosts(cluster), 0);
  });
}

// Memory that the program has reserved again is given back although the host is gone by then.
TEST(SuspendTest, AProgramThatEndsWhileItIsResumedOnAHostThatIsLostLeavesNothingBehind) {
  const auto reactor = Reactor::make_simulated({.seed = 3, .time_limit_ns = 200 * kSecond});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.host_timeout_ms = 1000});
    const Client client = cluster.connect("client", named("trainer")),
                 other = cluster.connect("other", named("other"));
    {
      const Slice slice = client.allocate({.devices = kDevices});
      const Executable step = slice.compile(trainer(16));
      losses(step, 16, 0, 2);
      other.suspend_program("trainer");
      cluster.stop(1);
      std::optional<Error> refused;
      Fiber resumes = reactor->spawn(
          "resume", [&] { refused = error_of([&] { other.resume_program("trainer"); }); });
      pass(*reactor, 10 * kMillisecond);
      EXPECT_FALSE(refused) << "its host does not answer";
      other.stop_program("trainer", 0);
      pass(*reactor, 10 * kSecond);
      ASSERT_TRUE(refused);
      EXPECT_THAT(refused->what(), HasSubstr("resume: client 1: its session was closed"));
      resumes.join();
    }
    client.close();
    other.close();
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
  });
}

TEST(SuspendTest, SuspendingAnUnknownProgramOrOneOfAnotherOwnerIsRefused) {
  const auto reactor = Reactor::make_simulated({.seed = 3});
  reactor->run([&] {
    SimCluster cluster(*reactor);
    cluster.network.set_user("guest", "bob");
    const Client client = cluster.connect("client", named("trainer")),
                 guest = cluster.connect("guest", named("guest"));
    const std::string owner = own_user_name();
    for (const std::string& name : {std::string("trainers"), std::string("nobody/trainer")}) {
      const Error error = error_of([&] { client.suspend_program(name); });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      EXPECT_THAT(error.what(), HasSubstr(cat("suspend: there is no program \"", name, "\" that ",
                                              owner, " may suspend")));
    }
    for (const std::string& name : {std::string("trainer"), cat(owner, "/trainer")}) {
      EXPECT_THAT(error_of([&] { guest.suspend_program(name); }).what(),
                  HasSubstr(cat("there is no program \"", name, "\" that bob may suspend")));
      EXPECT_THAT(error_of([&] { guest.resume_program(name); }).what(),
                  HasSubstr(cat("resume: there is no program \"", name, "\" that bob may resume")));
    }
    EXPECT_EQ(client.suspend_program("bob/guest"), 0) << "it has nothing";
    EXPECT_FALSE(client.status().programs.at(0).suspended);
    EXPECT_TRUE(client.status().programs.at(1).suspended);
    guest.resume_program("guest");
    client.close();
    guest.close();
  });
}

// Two programs share devices; one of them or both are suspended at any moment.
void suspend_at_random(uint64_t seed, bool overlay, const std::vector<float>& narrow,
                       const std::vector<float>& wide) {
  const auto reactor = Reactor::make_simulated({.seed = seed, .time_limit_ns = 600 * kSecond});
  const auto order_log = std::make_shared<OrderLog>();
  Rng rng(seed, 0x5095);
  reactor->run([&] {
    SimCluster cluster(
        *reactor,
        {.overlay_memory = overlay, .time = ProcessTime::kModelled, .order_log = order_log});
    const Client looker = cluster.connect("looker", named("looker"));
    int living = 2;
    std::vector<Fiber> fibers;
    for (const auto* expected : {&narrow, &wide}) {
      const std::string name = expected == &narrow ? "narrow" : "wide";
      fibers.push_back(reactor->spawn(name, [&, expected, name,
                                             rng = rng.fork(name.size())]() mutable {
        const int64_t width = name == "narrow" ? 16 : 32;
        const Client client = cluster.connect(name, named(name));
        {
          const Slice slice = client.allocate({.devices = kDevices});
          const Executable step = slice.compile(trainer(width));
          std::vector<float> told;
          while (told.size() < expected->size()) {
            const size_t count = std::min<size_t>(1 + rng.below(6), expected->size() - told.size());
            for (const float loss :
                 losses(step, width, static_cast<int>(told.size()), static_cast<int>(count)))
              told.push_back(loss);
            if (rng.chance(0.2)) {
              const HostTensor m = slice.read_state("m");
              slice.write_state("m", m);
            }
          }
          EXPECT_EQ(told, *expected) << "seed " << seed << ", " << name;
        }
        client.close();
        --living;
      }));
    }
    int times = 0;
    while (living > 0) {
      pass(*reactor, static_cast<int64_t>(rng.below(4 * kMillisecond)));
      const std::string name = rng.chance(0.5) ? "narrow" : "wide";
      try {
        looker.suspend_program(name);
        ++times;
        pass(*reactor, static_cast<int64_t>(rng.below(4 * kMillisecond)));
        if (rng.chance(0.2)) looker.suspend_program(name == "wide" ? "narrow" : "wide");
        looker.resume_program(name);
        looker.resume_program(name == "wide" ? "narrow" : "wide");
      } catch (const Error& error) {  // The program has ended, or not begun.
        for (const char* each : {"narrow", "wide"}) {
          try {
            looker.resume_program(each);
          } catch (const Error&) {
          }
        }
        EXPECT_THAT(std::string(error.what()),
                    ::testing::AnyOf(HasSubstr("there is no program"), HasSubstr("was closed")));
      }
    }
    for (Fiber& fiber : fibers) fiber.join();
    EXPECT_GT(times, 0) << "seed " << seed;
    looker.close();
    EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
    pass(*reactor, kSecond);
    EXPECT_EQ(bytes_in_use(cluster), 0) << "seed " << seed;
    EXPECT_EQ(bytes_on_hosts(cluster), 0) << "seed " << seed;
  });
  EXPECT_EQ(broken_order(*order_log, RunsAre::kPerhapsCut), "") << "seed " << seed;
}

TEST(SuspendTest, TwoProgramsSuspendedAtAnyMomentHaveTheSameBitsOfLosses) {
  constexpr int kSteps = 40;
  const std::vector<float> narrow = losses_alone(16, kSteps), wide = losses_alone(32, kSteps);
  const uint64_t first = tests::test_seed();
  for (uint64_t seed = first; seed < first + 40; ++seed)
    suspend_at_random(seed, seed % 2 == 1, narrow, wide);
}

}  // namespace
}  // namespace gangway::suspend_test
