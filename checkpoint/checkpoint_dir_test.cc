#include "checkpoint/checkpoint_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <functional>

#include "checkpoint/safetensors_writer.h"
#include "checkpoint/tensor_files.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointDirTest : public FolderTest {
 protected:
  CheckpointDir dir() const { return CheckpointDir(folder_ / "checkpoints"); }

  void save(int64_t step, const std::string& text) const {
    PendingCheckpoint pending = dir().begin(step);
    write_durably(pending.folder() / "data", text);
    pending.commit();
  }
  std::string latest_text() const { return read(dir().latest().value() / "data"); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints")) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

// While it lives, no file of this process may grow beyond `bytes`, like on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    handler_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int) = nullptr;
};

TEST_F(CheckpointDirTest, ACommittedCheckpointIsTheLatest) {
  EXPECT_EQ(dir().latest(), std::nullopt);
  save(5, "five");
  save(577, "later");
  EXPECT_EQ(latest_text(), "later");
  EXPECT_THAT(dir().steps(), ElementsAre(5, 577));
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000005", "step-00000577"));
  EXPECT_EQ(fs::read_symlink(folder_ / "checkpoints/latest"), "step-00000577");
}

TEST_F(CheckpointDirTest, AnAbandonedCheckpointLeavesNothing) {
  save(1, "one");
  {
    PendingCheckpoint pending = dir().begin(2);
    write_durably(pending.folder() / "data", "half");
  }
  EXPECT_EQ(latest_text(), "one");
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000001"));
}

TEST_F(CheckpointDirTest, TheNextCheckpointRemovesAFolderThatACrashLeftUnfinished) {
  save(1, "one");
  fs::create_directory(folder_ / "checkpoints/.partial-step-00000002");
  write("checkpoints/.partial-step-00000002/data", "half");
  EXPECT_EQ(latest_text(), "one");
  save(3, "three");
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000001", "step-00000003"));
}

TEST_F(CheckpointDirTest, TheSameStepAgainReplacesItsCheckpoint) {
  save(1, "one");
  save(1, "again");
  EXPECT_EQ(latest_text(), "again");
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000001"));
}

TEST_F(CheckpointDirTest, AFullDiskLeavesTheLastGoodCheckpoint) {
  const std::vector<TensorSpec> specs = {{"w", FileDType::kU8, {1 << 20}}};
  std::string bytes(1 << 20, 'w');
  auto save_tensors = [&](int64_t step) {
    PendingCheckpoint pending = dir().begin(step);
    SafetensorsWriter out(pending.folder() / kModelFile, specs);
    out.append("w", std::as_bytes(std::span(bytes)));
    out.finish();
    pending.commit();
  };
  save_tensors(10);
  const Error error = error_of([&] {
    FileSizeLimit limit(100'000);
    save_tensors(20);
  });
  EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(error.what(), HasSubstr("cannot write"));
  EXPECT_THAT(error.what(), HasSubstr("raise the limit on the size of a file (ulimit -f)"));
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000010"));
  TensorFiles files = TensorFiles::open(dir().latest().value());
  EXPECT_EQ(files.at("w").size(), bytes.size());
  save_tensors(20);
  EXPECT_EQ(dir().latest(), dir().folder_of(20));
}

TEST_F(CheckpointDirTest, PruningKeepsTheNewestAndTheLatest) {
  for (int64_t step : {1, 2, 3, 4}) save(step, cat("step ", step));
  dir().prune(2);
  EXPECT_THAT(dir().steps(), ElementsAre(3, 4));
  // The training resumed from step 3 and saved step 2: the newest in time is not the highest.
  save(2, "restarted");
  dir().prune(1);
  EXPECT_THAT(dir().steps(), ElementsAre(2, 4));
  EXPECT_EQ(latest_text(), "restarted");
  EXPECT_THROW(dir().prune(0), Error);
}

TEST_F(CheckpointDirTest, PruningDoesNotCountADamagedNewerCheckpointAmongThoseToKeep) {
  for (int64_t step : {450, 500, 550}) save(step, cat("step ", step));
  save(525, "gone on from 500");
  dir().prune(2);
  EXPECT_THAT(dir().steps(), ElementsAre(500, 525, 550));
  save(575, "later");
  dir().prune(2);
  EXPECT_THAT(dir().steps(), ElementsAre(550, 575));
}

TEST_F(CheckpointDirTest, PruningKeepsTheCheckpointThatIsNeeded) {
  for (int64_t step : {1, 2, 3, 4}) save(step, cat("step ", step));
  dir().prune(1, 2);
  EXPECT_THAT(dir().steps(), ElementsAre(2, 4));
  dir().prune(1, 77);
  EXPECT_THAT(dir().steps(), ElementsAre(4));
}

TEST_F(CheckpointDirTest, ALinkThatNamesNoCheckpointIsRefused) {
  save(1, "one");
  fs::path link = folder_ / "checkpoints/latest";
  for (const char* target : {"../elsewhere", "step-1", "step-00000009", "/etc"}) {
    fs::remove(link);
    fs::create_directory_symlink(target, link);
    EXPECT_THROW(dir().latest(), Error) << target;
  }
  fs::remove(link);
  write("checkpoints/latest", "a file");
  EXPECT_THROW(dir().latest(), Error);
}

TEST_F(CheckpointDirTest, ACopyWithoutTheLinkGoesOnFromTheHighestStep) {
  save(5, "five");
  save(577, "later");
  fs::remove(folder_ / "checkpoints/latest");
  EXPECT_EQ(latest_text(), "later");
  save(600, "newer");
  EXPECT_EQ(fs::read_symlink(folder_ / "checkpoints/latest"), "step-00000600");
}

TEST_F(CheckpointDirTest, ACopyThatFollowedTheLinkGoesOnFromItsFolder) {
  save(5, "five");
  const fs::path latest = folder_ / "checkpoints/latest";
  fs::remove(latest);
  fs::copy(folder_ / "checkpoints/step-00000005", latest, fs::copy_options::recursive);
  EXPECT_EQ(latest_text(), "five");
  save(6, "six");
  EXPECT_EQ(fs::read_symlink(latest), "step-00000006");
  EXPECT_EQ(latest_text(), "six");
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000005", "step-00000006"));
}

TEST_F(CheckpointDirTest, AKillBetweenTheNameAndTheLinkOfTheFirstCheckpointLosesNothing) {
  save(5, "five");
  fs::rename(folder_ / "checkpoints/latest", folder_ / "checkpoints/.partial-latest-1");
  EXPECT_EQ(latest_text(), "five");
  save(6, "six");
  EXPECT_EQ(latest_text(), "six");
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000005", "step-00000006"));
}

TEST_F(CheckpointDirTest, AWriterWhosePlaceWasTakenRenamesNothingOfTheOther) {
  PendingCheckpoint stopped = dir().begin(7);
  write_durably(stopped.folder() / "data", "stopped");
  PendingCheckpoint other = dir().begin(7);  // Takes the first for the rest of a crash.
  EXPECT_THROW(stopped.commit(), Error);
  EXPECT_THAT(dir().steps(), ElementsAre());
  write_durably(other.folder() / "data", "whole");
  other.commit();
  EXPECT_EQ(latest_text(), "whole");
}

TEST_F(CheckpointDirTest, BytesOfFoldersBelowOneAnotherCountAndLinksDoNot) {
  write("checkpoints/ann/train/step-1/data", std::string(100, 'x'));
  write("checkpoints/ann/other/data", std::string(20, 'x'));
  write("checkpoints/ann/file", std::string(3, 'x'));
  fs::create_directory_symlink("train", folder_ / "checkpoints/ann/again");
  EXPECT_EQ(bytes_below(folder_ / "checkpoints"), 123u);
  EXPECT_EQ(bytes_below(folder_ / "missing"), 0u);
}

TEST_F(CheckpointDirTest, LookingCreatesNothing) {
  EXPECT_EQ(dir().latest(), std::nullopt);
  EXPECT_THAT(dir().steps(), ElementsAre());
  EXPECT_FALSE(fs::exists(folder_ / "checkpoints"));
}

TEST_F(CheckpointDirTest, OtherNamesAreNotSteps) {
  save(123456789, "many");
  for (const char* name : {"step-", "step-12", "step-0000000x", "step-000000001", "notes"}) {
    fs::create_directory(folder_ / "checkpoints" / name);
  }
  EXPECT_THAT(dir().steps(), ElementsAre(123456789));
}

TEST_F(CheckpointDirTest, AFolderThatCannotBeMadeIsATypedError) {
  write("file", "");
  EXPECT_THROW(CheckpointDir(folder_ / "file/below").begin(1), Error);
  EXPECT_THROW(dir().begin(-1), Error);
}

}  // namespace
}  // namespace gangway
