// Bob's program loses less than 5 % of its steps to eve, who takes as much as one owner may. The
// tests are for rows of the table in protocol/README.md that owner_bounds_test.cc does not reach.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "checkpoint/checkpoint_dir.h"
#include "controller/programs/checkpoints.h"
#include "protocol/rpc_values.h"
#include "runtime/fibers/await.h"
#include "runtime/net/server.h"
#include "runtime/os/temp_dir.h"
#include "sim/sim_cluster.h"
#include "tests/attacks/bystander.h"

namespace gangway::owner_bounds_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uint64_t kMemoryMax = 512 << 10;  // The controller's memory in tests of that bound.

constexpr size_t kSegmentsMax = Checkpoints::kSegmentsOfOwnerMax;

uint64_t memory_of_eve(SimCluster& cluster) {
  return cluster.controller.controller().tables().owner_use.used(kEve, OwnerResource::kMemory);
}

OwnerBounds little_memory() {
  OwnerBounds bounds = kOwnerBounds;
  bounds[static_cast<size_t>(OwnerResource::kMemory)] = kMemoryMax;
  return bounds;
}

// A program in which w becomes w + x, both f32[width].
Program adding(const std::string& name, int64_t width) {
  ProgramBuilder b(name, Mesh{{{"data", 1}}});
  const Value w = b.state("w", zeros(f32({width})));
  const Value next = w + b.input("x", f32({width}));
  b.update(w, next);
  b.output("sum", sum(next, {0}));
  return b.build();
}

// Eve's programs, each with a client of its own. The destructor closes the clients.
struct EvesPrograms {
  EvesPrograms() = default;
  EvesPrograms(const EvesPrograms&) = delete;
  ~EvesPrograms() {
    steps.clear();
    slices.clear();
    for (const Client& client : clients) client.close();
  }

  void add(SimCluster& cluster, int64_t width) {
    const auto tell = [lines = told](const std::string& line) { *lines += line + "\n"; };
    clients.push_back(cluster.connect(kEve, {.on_warning = tell}));
    slices.push_back(clients.back().allocate({.devices = 1}));
    steps.push_back(slices.back().compile(adding("adding", width)));
  }

  const std::shared_ptr<std::string> told = std::make_shared<std::string>();
  std::vector<Client> clients;
  std::vector<Slice> slices;
  std::vector<Executable> steps;
};

class OwnerStepsTest : public testing::Test {
 protected:
  // Eve does it again and again while bob's steps are counted.
  using Attack = std::function<void()>;
  // Eve takes all that she is given. The attack that this returns holds it.
  using Begin = std::function<Attack(SimCluster& cluster, const Client& eve)>;

  static void expect_few_steps_lost(SimClusterOptions options, const Begin& begin) {
    options.time = ProcessTime::kModelled;
    const auto reactor = Reactor::make_simulated({.seed = 5});
    reactor->run([&] {
      SimCluster cluster(*reactor, options);
      for (const char* const owner : {"bob", kEve}) cluster.network.set_user(owner, owner);
      const Client bob = cluster.connect("bob"), eve = cluster.connect(kEve);
      {
        const Slice bobs = bob.allocate({.devices = 1, .exclusive = true});
        const Executable program = bobs.compile(bobs_program());
        const int alone = steps_of(program);
        const Attack attack = begin(cluster, eve);
        EXPECT_GE(steps_under(attack, program), fewest_steps(alone));
      }
      eve.close();
      bob.close();
    });
  }
  // Calls take() until it is refused.
  static Error refusal_after(const std::function<std::optional<Error>()>& take) {
    for (int i = 0; i < 5000; ++i) {
      if (std::optional<Error> refused = take()) return *std::move(refused);
    }
    return {ErrorKind::kBug, "she is given all that she asks for"};
  }
};

// A full log is dropped, and begins anew with the next run.
TEST_F(OwnerStepsTest, LogsOfRunsTakeNoMoreOfTheControllersMemoryThanOneOwnerMay) {
  const TempDir folder;
  expect_few_steps_lost(
      {.checkpoint_folder = folder.path().string(), .owner_bounds = little_memory()},
      [](SimCluster& cluster, const Client& eve) -> Attack {
        const Slice own = eve.allocate({.devices = 1});
        const Executable step = own.compile(adding("logged", 3000));
        own.keep_checkpoints({.every = 1 << 30});
        const auto run = [own, step] { step.run({{"x", filled(3000)}}).wait(); };
        uint64_t most = 0;
        for (int i = 0; i < 60; ++i) {
          run();
          most = std::max(most, memory_of_eve(cluster));
        }
        EXPECT_GT(most, kMemoryMax * 3 / 4);
        return [run, &cluster] {
          run();
          EXPECT_LE(memory_of_eve(cluster), kMemoryMax);
        };
      });
}

TEST_F(OwnerStepsTest, InputsOfRepetitionsTakeNoMoreOfTheControllersMemoryThanOneOwnerMay) {
  expect_few_steps_lost({.owner_bounds = little_memory()},
                        [](SimCluster& cluster, const Client& eve) -> Attack {
                          const Slice own = eve.allocate({.devices = 1});
                          const auto repeated = std::make_shared<std::vector<Executable>>();
                          const auto take = [own, repeated, &cluster] {
                            const auto refused = refusal_of([&] {
                              ProgramBuilder b(cat("p", repeated->size()), Mesh{{{"data", 1}}});
                              b.output("y", sum(timed(b.input("x", f32({3900})), 10'000), {0}));
                              const Executable step = own.compile(b.build());
                              step.repeat(1 << 20, {{"x", filled(3900)}});
                              repeated->push_back(step);
                            });
                            EXPECT_LE(memory_of_eve(cluster), kMemoryMax);
                            return refused;
                          };
                          const Error refused = refusal_after(take);
                          EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded);
                          EXPECT_THAT(refused.what(), HasSubstr("owner \"eve\" has"));
                          EXPECT_GT(repeated->size(), 2u);
                          return take;
                        });
}

// The model gives each compilation its time and does not bound how many are under way. Tests with
// threads show that owners take turns.
TEST_F(OwnerStepsTest, ProgramsInstalledAllTheTimeHoldUpNoRunsOfOthers) {
  expect_few_steps_lost({}, [](SimCluster&, const Client& eve) -> Attack {
    const Slice own = eve.allocate({.devices = 1});
    return [own] {
      std::vector<Fiber> compiling;
      for (int i = 0; i < 8; ++i) {
        compiling.push_back(Reactor::current().spawn(
            "compile", [own, i] { own.compile(chain(cat("p", i), 100, 4, 0)); }));
      }
      for (Fiber& each : compiling) each.join();
    };
  });
}

TEST_F(OwnerStepsTest, SessionsAreAsManyAsOneOwnerMayHave) {
  using Connected = capnp::Response<wire::Controller::ConnectResults>;
  struct Held {
    Connection connection;
    std::vector<Connected> sessions;
    ~Held() {
      sessions.clear();
      pass(kMs);  // Their releases are written one by one, before the connection goes.
    }
  };
  expect_few_steps_lost({}, [](SimCluster& cluster, const Client&) -> Attack {
    const std::shared_ptr<Held> held(new Held{
        Connection::connect(Reactor::current(), cluster.network.endpoint(kEve), "sim:controller"),
        {}});
    const auto take = [held] {
      return refusal_of([&] {
        auto request = held->connection.bootstrap<wire::Controller>().connectRequest();
        write(request.initVersion(), Version{});
        write(request.initMachine(), this_machine());
        request.setName("many");
        request.setNumberName(true);
        held->sessions.push_back(await<Connected>(request.send()));
      });
    };
    const Error refused = refusal_after(take);
    EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(refused.what(), HasSubstr("expected at most 1024"));
    EXPECT_EQ(held->sessions.size(), 1023u) << "she has a client already";
    return take;
  });
}

TEST_F(OwnerStepsTest, DevicesAndTheirMemoryAreWhatAnOwnersQuotaSays) {
  expect_few_steps_lost({}, [](SimCluster& cluster, const Client& eve) -> Attack {
    cluster.controller.controller().tables().quotas.set(
        {.owners = {{kEve, {.devices = 2, .memory_bytes = 32 << 20}}}});
    const auto slices = std::make_shared<std::vector<Slice>>();
    const auto programs = std::make_shared<std::vector<Executable>>();
    const auto take_devices = [eve, slices] {
      return refusal_of([&] { slices->push_back(eve.allocate({.devices = 1})); });
    };
    const auto take_memory = [slices, programs] {
      return refusal_of([&] {
        programs->push_back(slices->front().compile(chain(cat("p", programs->size()), 1, 8192, 0)));
      });
    };
    EXPECT_THAT(refusal_after(take_devices).what(),
                HasSubstr("the quota of owner \"eve\" is 2 devices"));
    EXPECT_EQ(slices->size(), 2u);
    EXPECT_THAT(refusal_after(take_memory).what(), HasSubstr("the quota of owner \"eve\" is "));
    EXPECT_GE(programs->size(), 1u);
    return [take_devices, take_memory] {
      EXPECT_TRUE(take_devices());
      EXPECT_TRUE(take_memory());
    };
  });
}

// Eve has more programs on a host than it has segments for her. Each run of one of them makes a
// version. When its checkpoint is written, another program gets the segment.
TEST_F(OwnerStepsTest, SegmentsOfCheckpointsAreAsManyAsOneOwnerMayHave) {
  const TempDir folder;
  expect_few_steps_lost(
      {.hosts = 1, .devices_per_host = 4, .checkpoint_folder = folder.path().string()},
      [](SimCluster& cluster, const Client&) -> Attack {
        const auto programs = std::make_shared<EvesPrograms>();
        while (programs->slices.size() < 2 * kSegmentsMax + 2) programs->add(cluster, 16);
        const auto segments = [&cluster] {
          return cluster.executors[0]->census().at("segments of checkpoints");
        };
        // Each program asks for a segment to restore from, releases it, and waits for a segment to
        // write from.
        std::vector<Fiber> asking;
        for (const Slice& slice : programs->slices) {
          asking.push_back(
              Reactor::current().spawn("keep", [slice] { slice.keep_checkpoints({.every = 1}); }));
        }
        size_t most = 0;
        while (!std::ranges::all_of(asking, [](const Fiber& each) { return each.done(); })) {
          most = std::max(most, segments());
          pass(kMs / 100);
        }
        for (Fiber& each : asking) each.join();
        pass(10 * kMs);
        EXPECT_GE(most, kSegmentsMax);
        EXPECT_LE(most, 2 * kSegmentsMax);
        EXPECT_EQ(segments(), kSegmentsMax);
        return [programs, segments, next = size_t{0}]() mutable {
          programs->steps[next++ % programs->steps.size()].run({{"x", filled(16)}}).wait();
          EXPECT_LE(segments(), kSegmentsMax);
          pass(2 * kMs);
        };
      });
}

TEST_F(OwnerStepsTest, CheckpointsTakeNoMoreOfTheDiskThanOneOwnerMay) {
  // A file's header and hash come on top of the quota, once.
  static constexpr uint64_t kBytesMax = 64 << 10, kHeadersMax = 4 << 10;
  const TempDir folder;
  const fs::path of_eve = folder.path() / Checkpoints::escaped(kEve);
  expect_few_steps_lost(
      {.checkpoint_folder = folder.path().string()}, [&](SimCluster& cluster, const Client&) {
        cluster.controller.controller().tables().quotas.set(
            {.owners = {{kEve, {.checkpoint_bytes = int64_t{kBytesMax}}}}});
        const auto programs = std::make_shared<EvesPrograms>();
        programs->add(cluster, 1000);
        programs->slices[0].keep_checkpoints({.every = 1, .keep = kCheckpointsKeptMax});
        const auto run = [programs] {
          programs->steps[0].run({{"x", filled(1000)}}).wait();
          pass(kMs);
        };
        const auto is_refused = [programs] {
          return programs->told->find("the owner's quota") != std::string::npos;
        };
        for (int i = 0; i < 200 && !is_refused(); ++i) run();
        EXPECT_TRUE(is_refused()) << *programs->told;
        EXPECT_GT(bytes_below(of_eve), kBytesMax / 2);
        return [run, of_eve] {
          run();
          EXPECT_LE(bytes_below(of_eve), kBytesMax + kHeadersMax);
        };
      });
}

TEST_F(OwnerStepsTest, TextsTakeNoMoreOfAHostsMemoryThanHalfOfItForOneOwner) {
  constexpr int64_t kHostMax = 256 << 10;
  const TempDir folder;
  expect_few_steps_lost(
      {.suspended_bytes = kHostMax}, [&folder](SimCluster& cluster, const Client& eve) -> Attack {
        const Slice own = eve.allocate({.devices = 1});
        const auto reading = std::make_shared<std::vector<Executable>>();
        const auto take = [own, reading, root = folder.path()] {
          return refusal_of([&] {
            const fs::path text = root / cat("text-", reading->size());
            std::ofstream(text) << std::string(30'000, static_cast<char>('a' + reading->size()));
            ProgramBuilder b(cat("p", reading->size()), Mesh{{{"data", 1}}});
            const Value tokens = b.source(
                "tokens",
                {"text", {{"path", text.string()}, {"seed", int64_t{3}}, {"heldout", false}}},
                i32({8, 5}));
            b.output("mean", mean(convert(tokens, DType::kF32)));
            reading->push_back(own.compile(b.build()));
          });
        };
        const Error refused = refusal_after(take);
        EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded);
        EXPECT_THAT(refused.what(), HasSubstr("of the host's memory for texts"));
        EXPECT_EQ(reading->size(), 4u);
        return [take, reading, &cluster] {
          EXPECT_TRUE(take());
          reading->back().run().wait();
          int64_t bytes = 0;
          for (const auto& executor : cluster.executors) bytes += executor->host().host_bytes();
          EXPECT_LE(bytes, kHostMax / 2);
        };
      });
}

}  // namespace
}  // namespace gangway::owner_bounds_test
