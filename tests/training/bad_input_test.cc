// Errors in a text, a folder or a configuration are reported before any cluster starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "programs/train/train.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class BadInputTest : public FolderTest {
 protected:
  TrainOptions options(const std::filesystem::path& text) const {
    TrainOptions options;
    options.text = text.string();
    options.out = folder_ / "out";
    options.config = tiny_model(text);
    options.steps = 2;
    options.sample_bytes = 0;
    options.in_process = true;
    // No cluster can start from this text, so any other error came first.
    options.cluster = "local:2xnone";
    options.devices = 4;  // Without it the cluster's text would be read for a number, and refused.
    return options;
  }
  TrainOptions good() const { return options(write("good.txt", readable_text())); }

  static void expect_invalid(const TrainOptions& options,
                             const testing::Matcher<std::string>& text) {
    const Error error = error_of([&] { train(options); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << error.what();
    EXPECT_THAT(std::string(error.what()), text);
  }
};

TEST_F(BadInputTest, AMissingTextIsNamed) {
  expect_invalid(options(folder_ / "nowhere.txt"),
                 AllOf(HasSubstr("nowhere.txt"), HasSubstr("no such file or folder")));
}

TEST_F(BadInputTest, AnEmptyTextIsNamed) {
  expect_invalid(options(write("empty.txt", "")),
                 AllOf(HasSubstr("empty.txt"), HasSubstr("empty")));
}

TEST_F(BadInputTest, AnEmptyFolderIsNamed) {
  std::filesystem::create_directories(folder_ / "books");
  expect_invalid(options(folder_ / "books"),
                 AllOf(HasSubstr("books"), HasSubstr("holds no files")));
}

TEST_F(BadInputTest, ATextThatIsTooShortSaysHowMuchIsNeeded) {
  expect_invalid(options(write("short.txt", readable_text(200))),
                 AllOf(HasSubstr("short.txt"), HasSubstr("at least 320 bytes")));
}

TEST_F(BadInputTest, AnOutputFolderBelowAFileIsNamed) {
  TrainOptions below = good();
  below.out = write("file", "x") / "out";
  expect_invalid(below, HasSubstr("file/out"));
}

TEST_F(BadInputTest, AnOutputFolderThatCannotBeWrittenIsNamed) {
  TrainOptions forbidden = good();
  forbidden.out = "/proc/self";  // No user can write there, not even root.
  expect_invalid(forbidden, HasSubstr("/proc/self"));
}

TEST_F(BadInputTest, ABatchThatDoesNotDivideOverTheDevicesIsNamed) {
  TrainOptions odd = good();
  odd.cluster = "local:2x2";
  odd.config.batch = 6;
  expect_invalid(odd, AllOf(HasSubstr("batch is 6"), HasSubstr("4 devices")));
}

TEST_F(BadInputTest, AClusterOfNoDevicesIsRefused) {
  TrainOptions none = good();
  none.cluster = "local:0x2";
  expect_invalid(none, HasSubstr("local:0x2"));
}

TEST_F(BadInputTest, StepsThatAreNotPositiveAndSamplesLongerThanTheModelAreRefused) {
  TrainOptions negative = good();
  negative.steps = -1;
  expect_invalid(negative, HasSubstr("steps"));
  TrainOptions long_sample = good();
  long_sample.sample_bytes = 17;
  expect_invalid(long_sample, AllOf(HasSubstr("17"), HasSubstr("16")));
}

TEST_F(BadInputTest, TheClusterIsTheOnlyThingWrongWithTheseOptions) {
  expect_invalid(good(), HasSubstr("local:2xnone"));
}

}  // namespace
}  // namespace gangway::programs
