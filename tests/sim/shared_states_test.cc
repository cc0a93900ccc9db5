// A program reads the states of another one that trains, on virtual time: every snapshot is one
// version, whatever goes wrong, and the trainer notices nothing.
#include "client/shared_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "client/objects.h"
#include "gangway.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/os/user.h"
#include "sim/faults.h"
#include "sim/sim_cluster.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway::shared_states_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kDevices = 4;
constexpr int64_t kRows = 8, kColumns = 4;

// "count" is cut over the devices, "trace" lies on each of them.
Program training(int64_t microseconds) {
  const Mesh mesh{{{"data", kDevices}}};
  ProgramBuilder b("training", mesh);
  const Value count = b.state("count", zeros(f32({kRows, kColumns})), {{"data", shard(0)}});
  const Value trace = b.state("trace", zeros(f32({kColumns})));
  const Value next =
      count + timed(b.input("x", f32({kRows, kColumns}), {{"data", shard(0)}}), microseconds);
  b.update(count, next);
  b.update(trace, trace * 0.5 + mean(next, {0}));
  b.output("loss", mean(next));
  return b.build();
}

HostTensor ones() {
  return HostTensor::of<float>({kRows, kColumns},
                               std::vector<float>(static_cast<size_t>(kRows * kColumns), 1.0f));
}

float trace_of(uint64_t version) {
  float trace = 0;
  for (uint64_t k = 1; k <= version; ++k) trace = trace * 0.5f + static_cast<float>(k);
  return trace;
}

// The first wrong value of a snapshot; empty if there is none.
std::string wrong_bits(const Snapshot& snapshot) {
  const auto count = static_cast<float>(snapshot.version());
  const float trace = trace_of(snapshot.version());
  for (const auto& [name, expected] : {std::pair{"count", count}, std::pair{"trace", trace}}) {
    const HostTensor tensor = snapshot.read(name);
    for (const float got : tensor.as<float>()) {
      if (got != expected)
        return cat("version ", snapshot.version(), ": ", name, ": expected ", expected, ", got ",
                   got);
    }
  }
  return {};
}

struct Report {
  std::vector<std::string> problems, errors;  // `errors`: errors that clients got.
  int runs = 0, committed = 0, snapshots = 0, past = 0;
};

// A trainer and two readers on a cluster with faults that are drawn from a seed.
class Scene {
 public:
  Scene(Reactor& reactor, uint64_t seed, bool faults, Report& report)
      : reactor_(reactor),
        rng_(seed, 0x5A0E),
        report_(report),
        cluster_(reactor, {.hosts = 2,
                           .devices_per_host = 2,
                           .host_timeout_ms = 1000,
                           .lease_ms = 500,
                           .time = ProcessTime::kModelled}) {
    if (faults)
      faults_ = draw_faults(seed, {.hosts = 2, .clients = 3, .within_ns = 60 * kMillisecond});
    for (int reader = 1; reader <= 2; ++reader)
      cluster_.network.set_user(SimCluster::client_name(reader), "bob");
  }

  void play() {
    {
      FaultInjector injector(reactor_, cluster_, faults_);
      FiberGroup fibers(reactor_);
      int living = 3;
      WaitQueue ended;
      for (int client = 0; client < 3; ++client) {
        fibers.spawn("client", [&, client, rng = rng_.fork(static_cast<uint64_t>(client))] {
          live(client, rng);
          --living;
          ended.wake_all();
        });
      }
      if (rng_.chance(0.5)) fibers.spawn("kill", [this] { kill_one(); });
      while (living > 0) ended.wait("for the clients");
    }
    pass(reactor_, 5000 * kMillisecond);
    const ControllerCounts left = cluster_.controller.controller().counts();
    if (left.total() > 0)
      problem(cat("left are ", left.clients, " clients, ", left.slices, " slices, ", left.plans,
                  " plans, ", left.arrays, " arrays, ", left.runs, " runs, ", left.transfers,
                  " copies"));
    for (const auto& executor : cluster_.executors) {
      if (executor == nullptr || executor->disconnected().ready()) continue;
      for (uint32_t d = 0; d < 2; ++d) {
        if (executor->host().bytes_in_use(d) > 0) problem("memory of devices is left");
      }
    }
  }

 private:
  void problem(const std::string& what) { report_.problems.push_back(what); }

  // Cuts a client off at any moment, as if its process were killed.
  void kill_one() {
    const auto number = static_cast<int>(rng_.below(3));
    pass(reactor_, static_cast<int64_t>(rng_.below(50 * kMillisecond)));
    died_ = true;
    cluster_.cut_off_client(SimCluster::client_name(number));
  }

  // Every error of a client must come from a fault that hit it or its hosts.
  void live(int number, Rng rng) {
    std::optional<Client> client;
    try {
      client.emplace(cluster_.connect(SimCluster::client_name(number),
                                      {.on_warning = [](const std::string&) {}}));
      number == 0 ? train(*client, rng) : read(*client, rng);
    } catch (const Error& error) {
      if (faults_.empty() && !died_) problem(cat("client ", number, ": ", error.what()));
      report_.errors.emplace_back(error.what());
    }
    if (number == 0) has_ended_ = true;
    changed_.wake_all();
    if (client) client->close();
  }

  void train(const Client& client, Rng rng) {
    const Slice slice = client.allocate({.devices = kDevices});
    const Executable step =
        slice.compile(training(50 + static_cast<int64_t>(rng.below(1000))),
                      CompileOptions{.runs_in_flight_max = 1 + static_cast<int64_t>(rng.below(8))});
    slice.allow_read("bob");
    is_open_ = true;
    changed_.wake_all();
    const Array x = slice.from_host(ones());
    std::deque<Run> open;
    const auto look = [&] {
      const Run run = open.front();
      open.pop_front();
      try {
        const auto loss = run["loss"].item<float>();
        if (loss != static_cast<float>(++report_.committed))
          problem(cat("run ", report_.committed, " says ", loss));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kCancelled) throw;
      }
    };
    for (int i = 0; i < 60; ++i) {
      try {
        open.push_back(step.run({{"x", x}}));
      } catch (const Error& error) {  // The error of an earlier, cancelled run.
        if (error.kind() != ErrorKind::kCancelled) throw;
        continue;
      }
      ++report_.runs;
      if (rng.chance(0.05)) open.back().cancel();
      if (rng.chance(0.1)) pass(reactor_, static_cast<int64_t>(rng.below(3 * kMillisecond)));
      if (rng.chance(0.3)) look();
    }
    while (!open.empty()) look();
  }

  void read(const Client& client, Rng rng) {
    while (!is_open_ && !has_ended_) changed_.wait("for the trainer");
    if (!is_open_) return;
    const SharedStates states = client.open_states(cat(own_user_name(), "/client-0"));
    uint64_t seen = 0, next = 1;
    while (true) {
      try {
        const uint64_t wanted = next + rng.below(6);
        const bool names_it = rng.chance(0.7);
        const Snapshot snapshot = names_it ? states.at(wanted) : states.latest();
        snapshot.wait();
        ++report_.snapshots;
        if (names_it && snapshot.version() != wanted)
          problem(cat("asked for version ", wanted, ", got ", snapshot.version()));
        if (snapshot.version() < seen) problem("the latest is an earlier one");
        seen = snapshot.version();
        next = seen + 1;
        if (const std::string wrong = wrong_bits(snapshot); !wrong.empty()) problem(wrong);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kUnavailable && has_ended_) return;
        if (error.kind() != ErrorKind::kInvalid) throw;
        ++report_.past;
        next += 3;
      }
      if (rng.chance(0.3)) pass(reactor_, static_cast<int64_t>(rng.below(5 * kMillisecond)));
    }
  }

  Reactor& reactor_;
  Rng rng_;
  Report& report_;
  std::vector<Fault> faults_;
  SimCluster cluster_;
  bool is_open_ = false, has_ended_ = false, died_ = false;
  WaitQueue changed_;
};

Report play(uint64_t seed, bool faults) {
  Report report;
  const auto reactor = Reactor::make_simulated({.seed = seed});
  reactor->on_unhandled_error = [&](const std::string& fiber, const Error& error) {
    report.problems.push_back(cat("fiber \"", fiber, "\" failed: ", error.what()));
  };
  reactor->run([&] {
    const size_t before = reactor->live_fibers();
    Scene(*reactor, seed, faults, report).play();
    if (reactor->live_fibers() != before)
      report.problems.push_back(cat("fibers go on:\n", reactor->describe_fibers()));
  });
  return report;
}

Report play_all(int seeds, bool faults) {
  Report all;
  const uint64_t first = tests::test_seed();
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(seeds); ++seed) {
    const Report one = play(seed, faults);
    for (const std::string& problem : one.problems)
      ADD_FAILURE() << "seed " << seed << ": " << problem;
    if (!one.problems.empty()) break;
    all.runs += one.runs;
    all.committed += one.committed;
    all.snapshots += one.snapshots;
    all.past += one.past;
  }
  return all;
}

TEST(SharedStatesTest, ASnapshotIsOneVersionWhileTheTrainerCancelsRunsAndReadersDie) {
  const Report all = play_all(40, false);
  EXPECT_GT(all.snapshots, 200);
  EXPECT_GT(all.past, 10);
  EXPECT_GT(all.committed, 800);
}

TEST(SharedStatesTest, ASnapshotIsOneVersionWhateverGoesWrong) {
  const Report all = play_all(60, true);
  EXPECT_GT(all.snapshots, 100);
  EXPECT_GT(all.committed, 400);
}

// An evaluator needs one of the trainer's states, cut differently.
Program evaluating() {
  ProgramBuilder b("evaluating", Mesh{{{"data", 2}}});
  const Value count = b.state("count", zeros(f32({kRows, kColumns})), {{"data", shard(1)}});
  b.output("sum", sum(count));
  return b.build();
}

TEST(SharedStatesTest, ASnapshotIsLoadedIntoStatesOfEqualNames) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& trainer) {
    const Slice slice = trainer.allocate({.devices = kDevices});
    const Executable step = slice.compile(training(10));
    step.run({{"x", ones()}});
    step.run({{"x", ones()}});
    const Client reader = cluster.connect("reader");
    {
      const SharedStates states = reader.open_states("client");
      EXPECT_EQ(states.states().size(), 2u);
      const Slice own = reader.allocate({.devices = 2});
      EXPECT_THAT(error_text_of([&] { states.latest(own); }),
                  HasSubstr("no program that has states"));
      const Executable evaluate = own.compile(evaluating());
      const Snapshot snapshot = states.latest(own);
      EXPECT_EQ(snapshot.version(), 2u);
      ASSERT_EQ(snapshot.states().size(), 1u);
      own.load(snapshot);
      EXPECT_EQ(evaluate.run()["sum"].item<float>(), 2.0f * kRows * kColumns);
      EXPECT_THAT(error_text_of([&] { snapshot.read("trace"); }), HasSubstr("no state \"trace\""));
      EXPECT_THAT(
          error_text_of([&] { states.at(2, {"momentum"}); }),
          HasSubstr("states of \"client\": there is no \"momentum\"; there are: count, trace"));
      EXPECT_THAT(error_text_of([&] { own.load(states.latest({"trace"})); }),
                  HasSubstr("no state \"count\""));
      EXPECT_THAT(error_text_of([&] { slice.load(snapshot); }), HasSubstr("another client's"));
    }
    reader.close();
  });
}

// The connection breaks while the reader waits, while hosts copy, and while the answer is on its
// way.
TEST(SharedStatesTest, AVersionThatIsWaitedForComesOverALaterConnection) {
  for (int64_t at_us = 0; at_us < 1000; at_us += 50) {
    auto reactor = Reactor::make_simulated({.seed = 3});
    with_client(*reactor, {.time = ProcessTime::kModelled},
                [&](SimCluster& cluster, const Client& trainer) {
                  const Slice slice = trainer.allocate({.devices = kDevices});
                  const Executable step = slice.compile(training(100));
                  const Client reader =
                      cluster.connect("reader", {.on_warning = [](const std::string&) {}});
                  {
                    const SharedStates states = reader.open_states("client");
                    Fiber cuts = reactor->spawn("cut", [&] {
                      pass(*reactor, at_us * 1000);
                      cluster.network.break_connections("reader");
                    });
                    Fiber runs = reactor->spawn("run", [&] {
                      while (cluster.controller.controller().counts().transfers == 0)
                        pass(*reactor, 20'000);
                      for (int i = 0; i < 4; ++i) step.run({{"x", ones()}});
                    });
                    const Snapshot snapshot = states.at(2);
                    EXPECT_EQ(snapshot.version(), 2u) << at_us;
                    EXPECT_EQ(wrong_bits(snapshot), "") << at_us;
                    cuts.join();
                    runs.join();
                  }
                  reader.close();
                  pass(*reactor, 1000 * kMillisecond);
                  EXPECT_EQ(cluster.controller.controller().counts().transfers, 0u);
                });
  }
}

TEST(SharedStatesTest, AReleasedSnapshotIsNotWaitedFor) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& trainer) {
    const Slice slice = trainer.allocate({.devices = kDevices});
    const Executable step = slice.compile(training(10));
    const Controller& controller = cluster.controller.controller();
    const SharedStates states = trainer.open_states("client");
    {
      const Snapshot far = states.at(1000), next = states.at(1);
      states.at(2000);
      pass(*reactor, kMillisecond);
      EXPECT_FALSE(far.done() || next.done());
      EXPECT_EQ(controller.counts().transfers, 2u);
      step.run({{"x", ones()}}).wait();
      EXPECT_EQ(wrong_bits(next), "");
      EXPECT_EQ(next.version(), 1u);
    }
    pass(*reactor, kMillisecond);
    EXPECT_EQ(controller.counts().transfers, 0u);
    std::vector<Snapshot> many;
    for (uint64_t version = 2; version < 67; ++version) many.push_back(states.at(version));
    EXPECT_EQ(error_of([&] { many.back().wait(); }).kind(), ErrorKind::kOverloaded);
    many.clear();
  });
}

// Memory that no host writes to is used again: a segment is not given up for it.
TEST(SharedStatesTest, AReadThatEndsBeforeHostsWriteLeavesTheClientItsMemory) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& trainer) {
    const Slice slice = trainer.allocate({.devices = kDevices});
    const Executable step = slice.compile(training(10));
    const Array loss = step.run({{"x", ones()}})["loss"];
    internal::SegmentHeap& heap = loss.impl()->session->bulk.heap();
    const uint64_t first = heap.take(64)->segment().token;
    const int64_t used = heap.used();
    const auto expect_given_back = [&](const std::string& when) {
      pass(*reactor, kMillisecond);
      EXPECT_EQ(heap.used(), used) << when;
      EXPECT_EQ(heap.take(64)->segment().token, first) << when;
    };
    const SharedStates states = trainer.open_states("client");
    states.at(1000);  // Nobody holds it.
    expect_given_back("let go before the controller heard of it");
    std::optional<Snapshot> waits = states.at(1000);
    pass(*reactor, kMillisecond);
    EXPECT_EQ(cluster.controller.controller().counts().transfers, 1u);
    EXPECT_GT(heap.used(), used);
    waits.reset();
    expect_given_back("let go while it waited");
    std::vector<Snapshot> many;
    for (uint64_t version = 2; version < 67; ++version) many.push_back(states.at(version));
    EXPECT_EQ(error_of([&] { many.back().wait(); }).kind(), ErrorKind::kOverloaded);
    many.clear();
    expect_given_back("one was refused, the others were let go together");
  });
}

TEST(SharedStatesTest, AReadThatIsLetGoWhileItsConnectionIsLostIsNotAskedForAgain) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& trainer) {
    const Slice slice = trainer.allocate({.devices = kDevices});
    const Executable step = slice.compile(training(10));
    const Client reader = cluster.connect("reader");
    const SharedStates states = reader.open_states("client");
    const Controller& controller = cluster.controller.controller();
    const size_t calls = controller.census().at("calls of clients");
    std::optional<Snapshot> far = states.at(1000);
    pass(*reactor, kMillisecond);
    EXPECT_EQ(controller.counts().transfers, 1u);
    cluster.network.partition("reader", SimCluster::kController);
    cluster.network.break_connections("reader");
    pass(*reactor, kMillisecond);
    far.reset();
    cluster.network.heal("reader", SimCluster::kController);
    step.run({{"x", ones()}}).wait();
    EXPECT_EQ(states.latest().version(), 1u) << "the reader is back";
    pass(*reactor, kMillisecond);
    EXPECT_EQ(controller.counts().transfers, 0u);
    EXPECT_EQ(controller.census().at("calls of clients"), calls);
    reader.close();
  });
}

TEST(SharedStatesTest, ClosingTheClientEndsItsWait) {
  auto reactor = Reactor::make_simulated({.seed = 3});
  with_client(*reactor, {}, [&](SimCluster& cluster, const Client& trainer) {
    const Slice slice = trainer.allocate({.devices = kDevices});
    const Executable step = slice.compile(training(10));
    const Client reader = cluster.connect("reader");
    const SharedStates states = reader.open_states("client");
    Error error(ErrorKind::kBug, "not thrown");
    Fiber waits = reactor->spawn("wait", [&] { error = error_of([&] { states.at(7).wait(); }); });
    pass(*reactor, kMillisecond);
    reader.close();
    waits.join();
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
    pass(*reactor, kMillisecond);
    EXPECT_EQ(cluster.controller.controller().counts().transfers, 0u);
  });
}

}  // namespace
}  // namespace gangway::shared_states_test
