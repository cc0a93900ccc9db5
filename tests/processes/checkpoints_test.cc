// Checkpoints that a cluster of real processes keeps, and the leftovers of a writer that is killed
// in the middle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "controller/programs/checkpoints.h"
#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/user.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/tool/run_tool.h"

namespace gangway {
namespace {

constexpr int64_t kRows = 8;
const Mesh kMesh{{{"data", 2}}};

Program training(int64_t columns) {
  ProgramBuilder b("training", kMesh);
  const Value w = b.state("w", zeros(f32({kRows, columns})), {{"data", shard(0)}});
  const Value v = b.state("v", zeros(f32({columns})));
  const Value next = w * 0.999 + b.input("x", f32({}));
  b.update(w, next);
  b.update(v, v * 0.9 + mean(next, {0}));
  b.output("loss", mean(next * next));
  return b.build();
}

// True if the folder has a checkpoint that is being written or was left unfinished.
bool has_partial(const std::filesystem::path& folder) {
  std::error_code gone;
  for (std::filesystem::directory_iterator at(folder, gone), end; at != end; at.increment(gone)) {
    if (at->path().filename().string().starts_with(".partial-step-")) return true;
  }
  return false;
}

class CheckpointsTest : public testing::Test {
 protected:
  CheckpointsTest() {
    EXPECT_TRUE(eventually([&] { return !(address_ = first_line_of(said_)).empty(); }));
    for (const char* const name : {"host-0", "host-1"})
      executors_.push_back(start(
          {"executor", "--connect", address_, "--name", name, "--memory", std::to_string(1 << 30)},
          executor_said_));
  }

  ChildProcess start(std::vector<std::string> arguments, const AnonymousFile& output) const {
    arguments.insert(arguments.begin(), tests::gangway_tool());
    return ChildProcess({.arguments = std::move(arguments),
                         .environment = {{"GANGWAY_TOKEN_FILE", token_}},
                         .output_file = output.path()});
  }

  Client client(const std::string& name) const {
    return connect(address_,
                   {.name = name, .token_file = token_, .on_warning = [](const std::string&) {}});
  }

  // Runs `gangway checkpoint` with the token of this file, or with the controller's own token.
  tool_test::Ended checkpoint(std::vector<std::string> arguments,
                              const std::string& token = {}) const {
    arguments.insert(arguments.begin(), {tests::gangway_tool(), "checkpoint"});
    arguments.insert(arguments.end(), {"--connect", address_});
    return tool_test::run_child(
        {.arguments = std::move(arguments),
         .environment = {{"GANGWAY_TOKEN_FILE", token.empty() ? token_ : token}}});
  }

  static void train(const Executable& step, int runs) {
    std::vector<gangway::Run> enqueued;
    for (int i = 0; i < runs; ++i) enqueued.push_back(step.run({{"x", 0.5f}}));
    for (const gangway::Run& run : enqueued) run.wait();
  }

  std::filesystem::path kept(const std::string& program) const {
    return temp_.path() / "kept" / Checkpoints::escaped(own_user_name()) / program;
  }

  const TempDir temp_;
  const std::string token_ = (temp_.path() / "state" / "token").string();
  AnonymousFile said_{"controller"}, executor_said_{"executor"};
  ChildProcess controller_ = start({"controller", "--listen", "127.0.0.1:0", "--checkpoint-dir",
                                    (temp_.path() / "kept").string()},
                                   said_);
  std::string address_;
  std::vector<ChildProcess> executors_;
};

TEST_F(CheckpointsTest, AWriterThatIsKilledLeavesEarlierCheckpointsWhole) {
  const Client trainer = client("large");
  const Slice slice = trainer.allocate({.devices = 2, .wait_ms = 10'000});
  constexpr int64_t kColumns = int64_t{4} << 20;  // 128 MiB of states, and some time to write them.
  const Executable step = slice.compile(training(kColumns));
  slice.keep_checkpoints({.every = 2, .keep = 2});
  const CheckpointDir folder(kept("large"));
  // Both executors are stopped, and then killed, while one of them has an incomplete file.
  int64_t version = 0;
  while (version < 40) {
    version += 2;
    train(step, 2);
    ASSERT_TRUE(eventually(
        [&] {
          return (version > 2 && has_partial(kept("large"))) ||
                 std::filesystem::exists(folder.folder_of(version));
        },
        kForFiles))
        << output_of(said_);
    for (ChildProcess& executor : executors_) executor.signal(SIGSTOP);
    if (!std::filesystem::exists(folder.folder_of(version))) break;
    for (ChildProcess& executor : executors_) executor.signal(SIGCONT);
    // The controller chooses the next version once it has heard of this one.
    ASSERT_TRUE(eventually(
        [&] {
          return trainer.status().programs.at(0).checkpoint == static_cast<uint64_t>(version);
        },
        kForFiles))
        << output_of(said_);
  }
  ASSERT_FALSE(std::filesystem::exists(folder.folder_of(version))) << "all were written too fast";
  for (ChildProcess& executor : executors_) executor.signal(SIGKILL);
  for (ChildProcess& executor : executors_) executor.wait();
  EXPECT_TRUE(has_partial(kept("large")));
  EXPECT_EQ(folder.steps().back(), version - 2);
  EXPECT_EQ(folder.latest()->filename(), folder.folder_of(version - 2).filename());
  const TensorFiles files = TensorFiles::open(*folder.latest());
  const std::vector<std::byte> w_bytes = files.at("w").read_all(),
                               v_bytes = files.at("v").read_all();
  const auto* const w = reinterpret_cast<const float*>(w_bytes.data());
  const auto* const v = reinterpret_cast<const float*>(v_bytes.data());
  float expected_w = 0, expected_v = 0;
  for (int64_t run = 0; run < version - 2; ++run) {
    expected_w = expected_w * 0.999f + 0.5f;
    expected_v = expected_v * 0.9f + expected_w;
  }
  EXPECT_FLOAT_EQ(w[0], expected_w);
  EXPECT_EQ(w[kRows * kColumns - 1], w[0]);
  EXPECT_FLOAT_EQ(v[0], expected_v);
  EXPECT_EQ(v[kColumns - 1], v[0]);
}

TEST_F(CheckpointsTest, AllCheckpointsAreListedAndOnlyThoseOfEndedProgramsRemoved) {
  const auto write_one = [&](const Client& client) {
    const Slice slice = client.allocate({.devices = 2, .wait_ms = 10'000});
    const Executable step = slice.compile(training(16));
    slice.keep_checkpoints({.every = 2, .keep = 2});
    train(step, 2);
  };
  const std::string root = (temp_.path() / "kept").string(), folder = kept("small").string();
  {
    Client trainer = client("small");
    write_one(trainer);
    ASSERT_TRUE(eventually([&] { return !CheckpointDir(folder).steps().empty(); }, kForFiles))
        << output_of(said_);
    EXPECT_THAT(checkpoint({"ls", root}).text, testing::ContainsRegex("small +1 +2 .* running\n"));
    const tool_test::Ended refused = checkpoint({"rm", folder});
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.text, testing::HasSubstr("the program \"small\" of "));
    EXPECT_FALSE(CheckpointDir(folder).steps().empty());
    // Another owner does not see whether the program runs.
    const std::string bob = (temp_.path() / "bob").string();
    EXPECT_TRUE(start({"token", "add", "bob", "--out", bob}, executor_said_).wait().ok());
    EXPECT_THAT(checkpoint({"ls", root}, bob).text, testing::ContainsRegex("small +1 +2 .* -\n"));
    const tool_test::Ended untold = checkpoint({"rm", folder}, bob);
    EXPECT_EQ(untold.status, 2);
    EXPECT_THAT(untold.text, testing::HasSubstr("whose name you are not told"));
    EXPECT_FALSE(CheckpointDir(folder).steps().empty());
    trainer.close();
  }
  EXPECT_THAT(checkpoint({"ls", root}).text, testing::ContainsRegex("small +1 +2 .* ended\n"));
  // If one of the named folders is no program's folder, none is removed.
  EXPECT_EQ(checkpoint({"rm", folder, root}).status, 2);
  const tool_test::Ended removed = checkpoint({"rm", folder});
  EXPECT_EQ(removed.status, 0) << removed.text;
  EXPECT_THAT(removed.text, testing::HasSubstr(folder + " is removed: 1 checkpoint, "));
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(CheckpointsTest, DamagedCheckpointsAndRestsOfAnInterruptedRemovalAreRemoved) {
  namespace fs = std::filesystem;
  const std::string folder = kept("small").string();
  {
    Client trainer = client("small");
    const Slice slice = trainer.allocate({.devices = 2, .wait_ms = 10'000});
    const Executable step = slice.compile(training(16));
    slice.keep_checkpoints({.every = 2, .keep = 2});
    train(step, 2);
    // The link is the last thing that the writer makes.
    ASSERT_TRUE(eventually([&] { return fs::is_symlink(fs::path(folder) / "latest"); }, kForFiles));
    trainer.close();
  }
  const fs::path damaged = CheckpointDir(folder).folder_of(9);
  fs::create_directory(damaged);
  std::ofstream(damaged / kModelFile) << "no tensors";
  fs::remove(fs::path(folder) / "latest");
  fs::create_directory_symlink(damaged.filename(), fs::path(folder) / "latest");
  const tool_test::Ended removed = checkpoint({"rm", folder});
  EXPECT_EQ(removed.status, 0) << removed.text;
  EXPECT_THAT(removed.text, testing::HasSubstr(folder + " is removed: 2 checkpoints, "));
  EXPECT_FALSE(fs::exists(folder));

  const fs::path left = kept(".removed-small");
  fs::create_directories(left / "step-00000002");
  const tool_test::Ended again = checkpoint({"rm", folder});
  EXPECT_EQ(again.status, 0) << again.text;
  EXPECT_FALSE(fs::exists(left));
  EXPECT_EQ(checkpoint({"rm", folder}).status, 2) << "nothing is left of it";
}

}  // namespace
}  // namespace gangway
