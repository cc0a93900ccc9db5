// `gangway logs` with a controller that is a process: shows a program's lines, and its controller's
// lines about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/tool/lines_in.h"
#include "tests/tool/terminal.h"

namespace gangway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class LogsTest : public testing::Test {
 protected:
  LogsTest()
      : controller_({.arguments = {tests::gangway_tool(), "controller", "--listen", "127.0.0.1:0"},
                     .output_file = said_.path()}) {
    EXPECT_TRUE(eventually([&] { return !first_line_of(said_).empty(); }));
    address_ = first_line_of(said_);
    client_.emplace(connect(address_, {.name = "trainer"}));
  }

  std::vector<std::string> command(std::vector<std::string> more) const {
    std::vector<std::string> words{tests::gangway_tool(), "logs", "--connect", address_};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Expects that `gangway logs` succeeds, and returns its output.
  std::string logs(const std::vector<std::string>& more) const {
    AnonymousFile output("output");
    ChildProcess child({.arguments = command(more), .output_file = output.path()});
    EXPECT_TRUE(child.wait().ok()) << output_of(output);
    return output_of(output);
  }
  std::vector<json> objects(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"trainer", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<json> objects;
    for (const std::string& line : lines_in(logs(words))) objects.push_back(json::parse(line));
    return objects;
  }
  std::vector<std::string> texts_of(const std::string& from) const {
    std::vector<std::string> texts;
    for (const json& line : objects()) {
      if (line["from"] == from) texts.push_back(line["text"]);
    }
    return texts;
  }

  AnonymousFile said_{"controller"};
  ChildProcess controller_;
  std::string address_;
  std::optional<Client> client_;
};

TEST_F(LogsTest, ShowsWhatTheProgramSaysAndWhatTheControllerKnowsInTextAndAsJson) {
  client_->log("step 1\nstep 2");
  client_->log(
      "evil \033[2J\r and \xc2\x9b"
      "31m");
  ASSERT_TRUE(eventually([&] { return texts_of("program").size() == 3; }));
  client_->suspend_program("trainer");
  client_->resume_program("trainer");
  const std::vector<json> all = objects();
  ASSERT_THAT(all, SizeIs(6));
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]["number"], i + 1);
    EXPECT_EQ(all[i]["time"].get<std::string>().size(),
              std::string("2026-11-23T09:29:47.123Z").size());
    EXPECT_FALSE(all[i].contains("dropped"));
  }
  EXPECT_THAT(texts_of("program"), ElementsAre("step 1", "step 2",
                                               "evil \033[2J\r and \xc2\x9b"
                                               "31m"));
  EXPECT_THAT(texts_of("controller"),
              ElementsAre("its client has connected", HasSubstr("is suspended by "),
                          HasSubstr("is resumed by ")));
  const std::vector<std::string> shown = lines_in(logs({"trainer", "--tail", "5"}));
  ASSERT_THAT(shown, SizeIs(5));
  EXPECT_THAT(shown[0], HasSubstr("  program     step 1"));
  EXPECT_THAT(shown[2], HasSubstr("evil \\u001b[2J\\u000d and \\u009b31m"));
  EXPECT_THAT(shown[3], HasSubstr("  controller  the program is suspended by "));
  EXPECT_EQ(logs({"trainer", "--tail", "0"}), "");
}

TEST_F(LogsTest, LinesThatAreNotKeptAreCounted) {
  std::string flood;
  for (int i = 0; i < 5000; ++i) flood += cat("line ", i, "\n");
  client_->log(flood);
  const auto last = [&] {
    const std::vector<std::string> lines = texts_of("program");
    return lines.empty() ? "" : lines.back();
  };
  ASSERT_TRUE(eventually([&] { return last() == "line 4999"; }));
  const std::vector<json> all = objects();
  EXPECT_EQ(all.size(), kLogLinesMax);
  EXPECT_EQ(all[0]["dropped"], 5001 - kLogLinesMax);
  EXPECT_EQ(all.back()["number"], 5001);
  EXPECT_EQ(lines_in(logs({"trainer"})).at(0),
            cat("(", 5001 - kLogLinesMax, " lines were dropped)"));
  // The cluster still works.
  EXPECT_EQ(client_->status().programs.size(), 1u);
}

TEST_F(LogsTest, FollowsUntilTheProgramEndsAndThenSaysWhy) {
  OnTerminal follower(command({"trainer", "--follow"}), 200);
  ASSERT_TRUE(follower.wait_for("its client has connected")) << follower.text();
  for (int step = 1; step <= 3; ++step) {
    client_->log(cat("step ", step));
    ASSERT_TRUE(follower.wait_for(cat("step ", step))) << follower.text();
  }
  // The last lines come too.
  client_->log("goodbye");
  client_->close();
  EXPECT_EQ(follower.end(), 0) << follower.text();
  EXPECT_THAT(follower.text(),
              AllOf(HasSubstr("goodbye"), HasSubstr("it has ended: it was closed")));
  EXPECT_THAT(logs({"trainer"}), AllOf(HasSubstr("goodbye"), HasSubstr("it has ended: it was ")));
}

TEST_F(LogsTest, CtrlCEndsAFollowerQuietly) {
  OnTerminal follower(command({"trainer", "--follow"}), 200);
  ASSERT_TRUE(follower.wait_for("its client has connected")) << follower.text();
  follower.type("\x03");
  const int status = follower.end();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  EXPECT_THAT(follower.text(), Not(HasSubstr("rror")));
}

TEST_F(LogsTest, ANameThatNobodyHasIsRefused) {
  OnTerminal none(command({"trainor"}), 200);
  const int status = none.end();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 0);
  EXPECT_THAT(none.text(), HasSubstr("logs: there is no program \"trainor\" whose log "));
}

TEST_F(LogsTest, ATrainingLogsWhatItShows) {
  AnonymousFile executor_said("executor");
  ChildProcess executor({.arguments = {tests::gangway_tool(), "executor", "--connect", address_,
                                       "--devices", "2", "--memory", "67108864"},
                         .output_file = executor_said.path()});
  ASSERT_TRUE(eventually([&] { return client_->status().hosts.size() == 1; }))
      << output_of(executor_said);
  const TempDir out;
  const std::string words = (out.path() / "text").string();
  std::ofstream(words) << std::string(20'000, 'a');
  AnonymousFile trained("trained");
  ChildProcess child({.arguments = {tests::gangway_tool(),
                                    "train",
                                    "quickstart",
                                    "--connect",
                                    address_,
                                    "--devices",
                                    "2",
                                    "--text",
                                    words,
                                    "--out",
                                    out.path().string(),
                                    "--name",
                                    "bible",
                                    "--steps",
                                    "3",
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
                                    "--sample-bytes",
                                    "0"},
                      .output_file = trained.path()});
  EXPECT_TRUE(child.wait().ok()) << output_of(trained);
  EXPECT_THAT(logs({"bible"}), AllOf(HasSubstr("  program     training "),
                                     HasSubstr("  program     step 3/3  train "),
                                     HasSubstr("  controller  it has ended: it was closed")));
}

}  // namespace
}  // namespace gangway
