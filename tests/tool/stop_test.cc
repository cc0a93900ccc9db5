// The first Ctrl-C or SIGTERM ends a training with a checkpoint, and prints the command that goes
// on; a second one ends it at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/cat.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/places.h"
#include "tests/tool/terminal.h"
#include "tools/commands/resume_command.h"

namespace gangway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// The rest of the line after the last `mark` in the text.
std::string line_behind(const std::string& text, const std::string& mark) {
  const size_t at = text.rfind(mark);
  if (at == text.npos) return "";
  const size_t from = at + mark.size();
  return text.substr(from, text.find_first_of("\r\n", from) - from);
}

class StopTest : public testing::Test {
 protected:
  StopTest() { std::ofstream(text_) << std::string(20'000, 'a'); }

  // A training that is longer than any test, with a folder whose name needs quotes in a shell.
  std::vector<std::string> training() const {
    return {tests::gangway_tool(),
            "train",
            "quickstart",
            "--connect",
            "local:1x2",
            "--text",
            text_,
            "--out",
            out_,
            "--steps",
            "1000000",
            "--batch",
            "2",
            "--layers",
            "1",
            "--dim",
            "16",
            "--heads",
            "2",
            "--experts",
            "0",
            "--seq",
            "16",
            "--heldout-every",
            "0"};
  }

  // Expects that the training was stopped and has its checkpoint. Returns the command that it
  // printed.
  std::string stopped(OnTerminal& trained) {
    EXPECT_TRUE(trained.wait_for("stopping: ")) << trained.text();
    EXPECT_TRUE(trained.wait_for("stopping after step ")) << trained.text();
    const int status = trained.end();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << trained.text();
    const std::string said = trained.text();
    EXPECT_THAT(said, AllOf(HasSubstr("Ctrl-C again ends at once"), HasSubstr("wrote " + out_)));
    const json report = json::parse("{\"stopped\":" + line_behind(said, "{\"stopped\":"));
    EXPECT_TRUE(std::filesystem::exists(report["checkpoint"].get<std::string>()));
    steps_ = report["steps"];
    EXPECT_THAT(said, HasSubstr(cat("stopping after step ", steps_, ": writing a checkpoint")));
    return line_behind(said, "to go on: ");
  }

  TempDir folder_;
  const std::string text_ = (folder_.path() / "text.txt").string();
  const std::string out_ = (folder_.path() / "the user's out").string();
  int64_t steps_ = 0;  // Steps of the last checkpoint.
};

TEST_F(StopTest, AFirstCtrlCWritesACheckpointAndPrintsTheCommandThatGoesOn) {
  std::string command;
  {
    OnTerminal trained(training(), 200);
    ASSERT_TRUE(trained.wait_for("/1000000  train")) << trained.text();
    trained.type("\x03");
    command = stopped(trained);
  }
  EXPECT_THAT(command, HasSubstr(" --resume"));
  const int64_t first = steps_;
  OnTerminal resumed({"/bin/sh", "-c", "exec " + command}, 200);
  ASSERT_TRUE(resumed.wait_for(cat("resumed after step ", first))) << resumed.text();
  ASSERT_TRUE(resumed.wait_for("/1000000  train")) << resumed.text();
  resumed.signal(SIGTERM);
  EXPECT_EQ(stopped(resumed), command);
  EXPECT_GT(steps_, first);
}

TEST_F(StopTest, ATerminalThatGoesAwayLeavesACheckpoint) {
  OnTerminal trained(training(), 200);
  ASSERT_TRUE(trained.wait_for("/1000000  train")) << trained.text();
  // Sends the signals of a closed terminal and of a system that ends a session.
  trained.stop();
  trained.signal(SIGHUP);
  trained.signal(SIGTERM);
  trained.signal(SIGCONT);
  EXPECT_THAT(stopped(trained), HasSubstr(" --resume"));
}

TEST_F(StopTest, ASecondSignalEndsTheTrainingAtOnce) {
  OnTerminal trained(training(), 200);
  ASSERT_TRUE(trained.wait_for("/1000000  train")) << trained.text();
  // Both signals are pending when the training goes on.
  trained.stop();
  trained.signal(SIGINT);
  trained.signal(SIGTERM);
  trained.signal(SIGCONT);
  const int status = trained.end();
  EXPECT_TRUE(WIFSIGNALED(status)) << status << trained.text();
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST_F(StopTest, ASignalBeforeTheFirstStepReportsThatNothingIsSaved) {
  OnTerminal trained(training(), 200);
  ASSERT_TRUE(trained.wait_for("text: ")) << trained.text();
  trained.type("\x03");
  const int status = trained.end();
  const std::string said = trained.text();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << said;
  // The training may have done a step.
  const std::string command = line_behind(said, "to go on: ");
  if (said.find("there is nothing to save") != said.npos) {
    EXPECT_EQ(command.find("--resume"), command.npos);
    EXPECT_FALSE(std::filesystem::exists(out_ + "/checkpoints"));
  } else {
    EXPECT_THAT(command, HasSubstr("--resume"));
  }
}

TEST(ResumeCommandTest, NamesTheScriptThatStartedTheTool) {
  const std::vector<std::string> words = {"build/tools/gangway", "train", "quickstart", "--text",
                                          "my $text"};
  EXPECT_EQ(tool::resume_command(words, {}),
            "build/tools/gangway train quickstart --text 'my $text' --resume");
  EXPECT_EQ(tool::resume_command({"gangway", "train", "--replace"}, {.out = "out/quickstart-2"}),
            "gangway train --out out/quickstart-2 --resume");
  setenv("GANGWAY_STARTED_AS", "./quickstart", 1);
  EXPECT_EQ(tool::resume_command(words, {.resume = false}), "./quickstart --text 'my $text'");
  setenv("GANGWAY_STARTED_AS", "", 1);
  EXPECT_EQ(tool::resume_command({"gangway", "train", "quickstart"}, {}),
            "gangway train quickstart --resume");
  unsetenv("GANGWAY_STARTED_AS");
}

}  // namespace
}  // namespace gangway
