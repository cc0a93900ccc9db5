// No training replaces checkpoints that another one has written, and no two write in one folder.
#include "programs/train/out_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "checkpoint/checkpoint_dir.h"
#include "programs/train/train.h"
#include "runtime/base/durable_file.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class OutFolderTest : public FolderTest {
 protected:
  static fs::path write_step(const fs::path& checkpoints, int64_t step) {
    PendingCheckpoint pending = CheckpointDir(checkpoints).begin(step);
    write_durably(pending.folder() / "data", cat("step ", step));
    return pending.commit();
  }
  fs::path with_checkpoint(const std::string& name, int64_t step) const {
    write_step(folder_ / name / "checkpoints", step);
    return folder_ / name;
  }
  static std::vector<int64_t> steps(const fs::path& out) {
    return CheckpointDir(out / "checkpoints").steps();
  }
};

TEST_F(OutFolderTest, ASecondTrainingIsToldWhoWritesThere) {
  const OutFolder first(OutOptions{.path = folder_ / "out"});
  const Error error = error_of([&] { OutFolder(OutOptions{.path = folder_ / "out"}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), AllOf(HasSubstr((folder_ / "out").string()),
                                  HasSubstr(cat("is being written to by process ", getpid())),
                                  HasSubstr("choose another folder with --out")));
}

TEST_F(OutFolderTest, ATrainingInAFolderThatAnotherWritesToEndsBeforeItWritesAnything) {
  const OutFolder first(OutOptions{.path = folder_ / "out"});
  TrainOptions options;
  options.out = folder_ / "out";
  options.text = write("text.txt", readable_text()).string();
  options.config = tiny_model(options.text);
  options.sample_bytes = 0;
  options.in_process = true;
  EXPECT_THAT(error_of([&] { train(options); }).what(), HasSubstr("is being written to by"));
  EXPECT_FALSE(fs::exists(folder_ / "out/model.json"));
}

TEST_F(OutFolderTest, AStartByMistakeLeavesTheCheckpointsOfTheEarlierTraining) {
  const fs::path out = with_checkpoint("out", 287);
  const Error error = error_of([&] { OutFolder(OutOptions{.path = out}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("has checkpoints of another training"), HasSubstr("step-00000287"),
                    HasSubstr("--resume"), HasSubstr("--out"), HasSubstr("--replace")));
  EXPECT_THAT(steps(out), ElementsAre(287));
}

TEST_F(OutFolderTest, WithoutAFolderOfItsOwnATrainingTakesTheNextFreeOne) {
  const fs::path out = with_checkpoint("quickstart", 577);
  with_checkpoint("quickstart-2", 3);
  const OutFolder third(OutOptions{.path = out, .take_next_free = true});
  EXPECT_EQ(third.path(), folder_ / "quickstart-3");
  const OutFolder fourth(OutOptions{.path = out, .take_next_free = true});
  EXPECT_EQ(fourth.path(), folder_ / "quickstart-4") << "the third is being written to";
  EXPECT_THAT(folders_with_checkpoints(out), ElementsAre(out, folder_ / "quickstart-2"));
}

TEST_F(OutFolderTest, AFolderWithoutACheckpointIsTakenAgain) {
  {
    const OutFolder stopped(OutOptions{.path = folder_ / "out", .take_next_free = true});
  }
  const OutFolder again(OutOptions{.path = folder_ / "out", .take_next_free = true});
  EXPECT_EQ(again.path(), folder_ / "out");
}

TEST_F(OutFolderTest, ReplacedCheckpointsStayUntilTheFirstNewOneIsWritten) {
  const fs::path path = with_checkpoint("out", 287);
  OutFolder out(OutOptions{.path = path, .replace = true});
  EXPECT_THAT(steps(path), ElementsAre(287));
  EXPECT_THROW(out.save([&]() -> fs::path { fail_file("write", path, ENOSPC); }), Error);
  EXPECT_THAT(steps(path), ElementsAre(287));
  EXPECT_EQ(out.save([&] { return write_step(out.checkpoints(), 3); }),
            path / "checkpoints/step-00000003");
  EXPECT_THAT(steps(path), ElementsAre(3));
  out.save([&] { return write_step(out.checkpoints(), 6); });
  EXPECT_THAT(steps(path), ElementsAre(3, 6));
  EXPECT_FALSE(fs::exists(path / "checkpoints.replaced"));
}

TEST_F(OutFolderTest, ATrainingThatIsKilledBeforeItsFirstCheckpointHasReplacedNone) {
  const fs::path path = with_checkpoint("out", 287);
  // The killed training leaves the old checkpoints aside, and an incomplete one in their place.
  fs::rename(path / "checkpoints", path / "checkpoints.replaced");
  write("out/checkpoints/.partial-step-00000003-1/model.safetensors", "half");
  EXPECT_THAT(folders_with_checkpoints(path), ElementsAre(path));
  {
    const OutFolder next(OutOptions{.path = path, .take_next_free = true});
    EXPECT_EQ(next.path(), folder_ / "out-2");
  }
  {
    const OutFolder resumed(OutOptions{.path = path, .resume = true});
    EXPECT_THAT(steps(path), ElementsAre(287));
    EXPECT_FALSE(fs::exists(path / "checkpoints.replaced"));
  }
  fs::rename(path / "checkpoints", path / "checkpoints.replaced");
  OutFolder again(OutOptions{.path = path, .replace = true});
  EXPECT_THROW(again.save([&]() -> fs::path { fail_file("write", path, ENOSPC); }), Error);
  EXPECT_THAT(steps(path), ElementsAre(287));
}

TEST_F(OutFolderTest, ATextOfTheUserIsNotReplacedByTheBook) {
  write("out/text.txt", "mine");
  TrainOptions options = quickstart_options();
  options.out = folder_ / "out";
  options.in_process = true;
  EXPECT_THAT(error_of([&] { train(options); }).what(),
              AllOf(HasSubstr("is another text than the book"), HasSubstr("--text")));
  EXPECT_EQ(read(folder_ / "out/text.txt"), "mine");
}

}  // namespace
}  // namespace gangway::programs
