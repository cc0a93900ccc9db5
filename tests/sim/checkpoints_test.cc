// Checkpoints that the cluster keeps, on virtual time: their files hold one version of a program
// that trains on, whatever happens to their writer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>

#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/tensor_files.h"
#include "controller/programs/checkpoints.h"
#include "gangway.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/user.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kAhead = 2;
constexpr int64_t kLayers = 3, kRows = 8, kColumns = 4;

// "count" is cut over the devices, "trace" lies on each of them, and "layers.w" stacks three.
Program training() {
  const Mesh mesh{{{"data", 4}}};
  ProgramBuilder b("training", mesh);
  const Value count = b.state("count", zeros(f32({kRows, kColumns})), {{"data", shard(0)}});
  const Value trace = b.state("trace", zeros(f32({kColumns})));
  StateSpec layers = zeros(f32({kLayers, kColumns}));
  layers.stacked = {.first = 0, .count = kLayers, .name_tail = 1};
  const Value w = b.state("layers.w", layers);
  const Value next = count + timed(b.input("x", f32({kRows, kColumns}), {{"data", shard(0)}}), 200);
  b.update(count, next);
  b.update(trace, trace * 0.5 + mean(next, {0}));
  b.update(w, w + 2.0);
  b.output("loss", mean(next) + mean(trace));
  return b.build();
}

HostTensor ones() {
  return HostTensor::of<float>({kRows, kColumns},
                               std::vector<float>(static_cast<size_t>(kRows * kColumns), 1.0f));
}

std::vector<float> losses_of(const Executable& step, int runs) {
  std::deque<Run> open;
  std::vector<float> losses;
  const auto look = [&] {
    losses.push_back(open.front()["loss"].item<float>());
    open.pop_front();
  };
  for (int i = 0; i < runs; ++i) {
    open.push_back(step.run({{"x", ones()}}));
    if (open.size() == kAhead) look();
  }
  while (!open.empty()) look();
  return losses;
}

uint64_t checkpoint_of(const Client& client) { return client.status().programs.at(0).checkpoint; }

void wait_for_checkpoint(Reactor& reactor, const Client& client, uint64_t version) {
  for (int i = 0; i < 1000 && checkpoint_of(client) < version; ++i) pass(reactor, kMillisecond);
  EXPECT_EQ(checkpoint_of(client), version);
}

std::filesystem::path folder_of(const TempDir& root, const std::string& program) {
  return root.path() / Checkpoints::escaped(own_user_name()) / program;
}

std::vector<float> values_of(const TensorFiles& files, const std::string& name) {
  const auto bytes = files.at(name).read_all();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The first defect in the files of this version; empty if there is none.
std::string wrong_files(const std::filesystem::path& folder, int64_t version) {
  const TensorFiles files = TensorFiles::open(folder);
  if (files.metadata().at("version") != std::to_string(version)) return "another version";
  float trace = 0;
  for (int64_t k = 1; k <= version; ++k) trace = trace * 0.5f + static_cast<float>(k);
  const auto count = static_cast<float>(version);
  for (const auto& [name, expected] :
       {std::pair{"count", count}, std::pair{"trace", trace}, std::pair{"layers.2.w", 2 * count}}) {
    for (const float got : values_of(files, name)) {
      if (got != expected) return cat(name, ": expected ", expected, ", got ", got);
    }
  }
  return files.tensors().size() == 5 ? "" : cat("it has ", files.tensors().size(), " tensors");
}

TEST(CheckpointsTest, FilesAreOneVersionEachAndTrainingDoesNotNotice) {
  const TempDir root;
  std::vector<float> alone, kept;
  for (const bool keeps : {false, true}) {
    auto reactor = Reactor::make_simulated({.seed = 5});
    with_client(
        *reactor, {.checkpoint_folder = root.path().string(), .time = ProcessTime::kModelled},
        [&](SimCluster& cluster, const Client& client) {
          const Slice slice = client.allocate({.devices = 4});
          const Executable step = slice.compile(training());
          if (!keeps) {
            alone = losses_of(step, 45);
            return;
          }
          slice.keep_checkpoints({.every = 10, .keep = 3, .metadata = {{"seed", "7"}}});
          EXPECT_EQ(checkpoint_of(client), 0u);
          // A client that reads the same versions meanwhile has the same bits.
          const Client reader = cluster.connect("reader");
          {
            const SharedStates states = reader.open_states("client");
            const Snapshot at_30 = states.at(30);
            kept = losses_of(step, 45);
            EXPECT_EQ(at_30.version(), 30u);
            wait_for_checkpoint(*reactor, client, 40);
            const TensorFiles files =
                TensorFiles::open(CheckpointDir(folder_of(root, "client")).folder_of(30));
            for (const char* const name : {"count", "trace"}) {
              const HostTensor read = at_30.read(name);
              const auto values = read.as<float>();
              EXPECT_EQ(values_of(files, name), std::vector<float>(values.begin(), values.end()));
            }
            EXPECT_EQ(files.metadata().at("seed"), "7");
          }
          reader.close();
        });
  }
  EXPECT_EQ(kept, alone);
  const CheckpointDir folder(folder_of(root, "client"));
  ASSERT_THAT(folder.steps(), ElementsAre(20, 30, 40));
  for (const int64_t version : folder.steps())
    EXPECT_EQ(wrong_files(folder.folder_of(version), version), "") << version;
  EXPECT_EQ(folder.latest()->filename(), "step-00000040");
}

TEST(CheckpointsTest, AWriterOfCheckpointsMayDieAtAnyMoment) {
  int found = 0;
  std::vector<float> alone;
  {
    auto reactor = Reactor::make_simulated({.seed = 5});
    with_client(*reactor, {}, [&](SimCluster&, const Client& client) {
      alone = losses_of(client.allocate({.devices = 4}).compile(training()), 60);
    });
  }
  for (uint64_t seed = tests::test_seed(), last = seed + 12; seed < last; ++seed) {
    const TempDir root;
    Rng rng(seed, 0xC4EC);
    auto reactor = Reactor::make_simulated({.seed = seed});
    reactor->run([&] {
      SimCluster cluster(
          *reactor,
          {.hosts = 3, .checkpoint_folder = root.path().string(), .time = ProcessTime::kModelled});
      const Client client = cluster.connect("client", {.on_warning = [](const std::string&) {}});
      {
        const Slice slice = client.allocate({.devices = 4});
        const Executable step = slice.compile(training());
        slice.keep_checkpoints({.every = 3, .keep = 2});
        Fiber kill = reactor->spawn("kill", [&] {
          pass(*reactor, static_cast<int64_t>(rng.below(20 * kMillisecond)));
          cluster.kill(static_cast<int>(rng.below(2)));
        });
        EXPECT_EQ(losses_of(step, 60), alone) << "seed " << seed;
        kill.join();
      }
      client.close();
      pass(*reactor, 20'000 * kMillisecond);
      EXPECT_EQ(cluster.controller.controller().counts().total(), 0u) << "seed " << seed;
    });
    const CheckpointDir folder(folder_of(root, "client"));
    for (const int64_t version : folder.steps()) {
      ++found;
      EXPECT_EQ(wrong_files(folder.folder_of(version), version), "") << "seed " << seed;
    }
    EXPECT_LE(folder.steps().size(), 2u);
  }
  EXPECT_GT(found, 10);
}

TEST(CheckpointsTest, CheckpointsOfAResumedTrainingContinueItsNumbers) {
  const TempDir root;
  std::vector<float> losses[2];
  for (const bool keeps : {false, true}) {
    auto reactor = Reactor::make_simulated({.seed = 2});
    with_client(*reactor, {.checkpoint_folder = root.path().string()},
                [&](SimCluster& cluster, const Client& client) {
                  const Slice slice = client.allocate({.devices = 4});
                  const Executable step = slice.compile(training());
                  if (keeps) slice.keep_checkpoints({.every = 10, .keep = 2, .first = 600});
                  losses[keeps] = losses_of(step, 45);
                  if (keeps) {
                    wait_for_checkpoint(*reactor, client, 640);
                    EXPECT_THAT(CheckpointDir(folder_of(root, "client")).steps(),
                                ElementsAre(630, 640));
                    cluster.kill(0);
                    cluster.start_again(0);
                  }
                  for (const float loss : losses_of(step, 15)) losses[keeps].push_back(loss);
                });
  }
  EXPECT_EQ(losses[1], losses[0]);
}

TEST(CheckpointsTest, AnOwnersProgramsHaveABoundedNumberOfFolders) {
  const TempDir root;
  for (size_t i = 0; i < Checkpoints::kFoldersOfOwnerMax; ++i)
    std::filesystem::create_directories(folder_of(root, cat("p", i)));
  auto reactor = Reactor::make_simulated({.seed = 2});
  with_client(*reactor, {.checkpoint_folder = root.path().string()},
              [&](SimCluster&, const Client& client) {
                const Slice slice = client.allocate({.devices = 4});
                const Executable step = slice.compile(training());
                const Error error = error_of([&] { slice.keep_checkpoints({.every = 5}); });
                EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
                EXPECT_THAT(error.what(), HasSubstr("has 1024 folders of checkpoints"));
                EXPECT_THAT(error.what(), HasSubstr("gangway checkpoint rm"));
                std::filesystem::remove(folder_of(root, "p7"));
                slice.keep_checkpoints({.every = 5});
              });
}

TEST(CheckpointsTest, StatesGoBackToAVersionThatIsKept) {
  const TempDir root;
  auto reactor = Reactor::make_simulated({.seed = 5});
  with_client(*reactor, {.checkpoint_folder = root.path().string()},
              [&](SimCluster& cluster, const Client& client) {
                const Slice slice = client.allocate({.devices = 4});
                const Executable step = slice.compile(training());
                slice.keep_checkpoints({.every = 10, .keep = 3});
                const std::vector<float> losses = losses_of(step, 45);
                wait_for_checkpoint(*reactor, client, 40);
                Checkpoints& checkpoints = cluster.controller.controller().checkpoints();
                const SliceId id(1);
                EXPECT_EQ(checkpoints.newest(id), StateVersion(40));
                for (const int from : {30, 40}) {
                  checkpoints.restore(id, StateVersion(static_cast<uint64_t>(from)));
                  EXPECT_EQ(slice.read_state("count").as<float>()[0], static_cast<float>(from));
                  EXPECT_EQ(losses_of(step, 45 - from),
                            std::vector<float>(losses.begin() + from, losses.end()));
                }
                EXPECT_THAT(error_text_of([&] { checkpoints.restore(id, StateVersion(7)); }),
                            HasSubstr("step-00000007"));
              });
}

TEST(CheckpointsTest, ACheckpointThatCanNotBeWrittenIsReportedAndTrainingGoesOn) {
  const TempDir root;
  std::ofstream(root.path() / "file") << "in the way";
  auto reactor = Reactor::make_simulated({.seed = 5});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.checkpoint_folder = (root.path() / "file").string()});
    std::vector<std::string> told;
    const Client client = cluster.connect(
        "client", {.on_warning = [&told](const std::string& line) { told.push_back(line); }});
    {
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = slice.compile(training());
      slice.keep_checkpoints({.every = 5});
      EXPECT_EQ(losses_of(step, 12).size(), 12u);
      pass(*reactor, 100 * kMillisecond);
    }
    ASSERT_FALSE(told.empty());
    EXPECT_THAT(told[0], HasSubstr("checkpoint of version 5 was not written: "));
    EXPECT_THAT(told[0], HasSubstr("the program goes on"));
    client.close();
  });
}

TEST(CheckpointsTest, InvalidRequestsToKeepCheckpointsAreRefused) {
  const TempDir root;
  auto reactor = Reactor::make_simulated({.seed = 5});
  with_client(*reactor, {.checkpoint_folder = root.path().string()},
              [&](SimCluster&, const Client& client) {
                const Slice slice = client.allocate({.devices = 4});
                const auto refused = [&](const RecoveryOptions& options) {
                  return error_text_of([&] { slice.keep_checkpoints(options); });
                };
                EXPECT_THAT(refused({.every = 1}), HasSubstr("no program that has states"));
                slice.compile(training());
                EXPECT_THAT(refused({}), HasSubstr("expected one every 1 or more versions, got 0"));
                EXPECT_THAT(refused({.every = 1, .keep = 0}), HasSubstr("to keep 1 to 1000"));
                slice.keep_checkpoints({.every = 1});
                slice.keep_checkpoints({.every = 2});
                const Slice other = client.allocate({.devices = 4});
                other.compile(training());
                EXPECT_THAT(error_text_of([&] { other.keep_checkpoints({.every = 1}); }),
                            HasSubstr("another slice of this program"));
              });
  reactor.reset();
  reactor = Reactor::make_simulated({.seed = 5});
  with_client(*reactor, {}, [&](SimCluster&, const Client& client) {
    const Slice slice = client.allocate({.devices = 4});
    slice.compile(training());
    EXPECT_THAT(error_text_of([&] { slice.keep_checkpoints({.every = 1}); }),
                HasSubstr("this controller has no folder for them"));
  });
}

}  // namespace
}  // namespace gangway
