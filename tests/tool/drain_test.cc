// Hosts that are drained and forgotten, and a training that waits for one, with the tool alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/tool/terminal.h"

namespace gangway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

struct Ended {
  int status = 0;
  std::string said;
};

// A controller and an executor of two devices, "e".
class DrainTest : public testing::Test {
 protected:
  DrainTest()
      : controller_({.arguments = {tests::gangway_tool(), "controller", "--listen", "127.0.0.1:0"},
                     .output_file = said_.path()}) {
    EXPECT_TRUE(eventually([&] { return !first_line_of(said_).empty(); }));
    address_ = first_line_of(said_);
    start_executor();
    EXPECT_TRUE(eventually([&] { return devices().size() == 1; }));
  }

  void start_executor() {
    executor_.emplace(
        ChildOptions{.arguments = {tests::gangway_tool(), "executor", "--connect", address_,
                                   "--devices", "2", "--name", "e", "--memory", "67108864"},
                     .output_file = executor_said_.path()});
  }

  Ended gangway(std::vector<std::string> words) {
    AnonymousFile output("output");
    words.insert(words.begin(), tests::gangway_tool());
    words.insert(words.end(), {"--connect", address_});
    ChildProcess child({.arguments = words, .output_file = output.path()});
    const ExitStatus status = child.wait();
    return {status.code, output_of(output)};
  }

  // The command line of a tiny training on both devices.
  std::vector<std::string> training(const std::vector<std::string>& more) {
    const std::string text = (folder_.path() / "text.txt").string();
    std::ofstream(text) << std::string(20'000, 'a');
    std::vector<std::string> words = {tests::gangway_tool(), "train", "quickstart"};
    const auto add = [&](const std::string& flag, const std::string& value) {
      words.insert(words.end(), {flag, value});
    };
    add("--connect", address_);
    add("--text", text);
    add("--out", (folder_.path() / "out").string());
    add("--batch", "2");
    add("--layers", "1");
    add("--dim", "16");
    add("--heads", "2");
    add("--experts", "0");
    add("--seq", "16");
    add("--heldout-every", "0");
    add("--sample-bytes", "0");
    add("--devices", "2");
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  json devices() { return json::parse(gangway({"devices", "--json"}).said); }

  AnonymousFile said_{"controller"}, executor_said_{"executor"};
  ChildProcess controller_;
  std::string address_;
  std::optional<ChildProcess> executor_;
  TempDir folder_;
};

TEST_F(DrainTest, AHostIsDrainedUndrainedAndForgotten) {
  const Client client = connect(address_, {.name = "trainer"});
  std::optional<Slice> slice = client.allocate({.devices = 1});
  Ended ended = gangway({"drain", "e"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.said, AllOf(HasSubstr("e is draining"), HasSubstr("  trainer of ")));
  EXPECT_THAT(gangway({"devices"}).said, HasSubstr("runs done, draining"));
  EXPECT_EQ(devices()[0]["draining"], true);
  EXPECT_EQ(devices()[0]["drained"], false);
  slice.reset();
  EXPECT_TRUE(eventually([&] { return client.status().hosts.at(0).is_drained; }));
  EXPECT_THAT(gangway({"drain", "e"}).said, HasSubstr("e is drained"));
  EXPECT_THAT(gangway({"devices"}).said, HasSubstr("runs done, drained"));
  EXPECT_THAT(gangway({"top", "--once"}).said, HasSubstr("  drained"));
  ended = gangway({"forget", "e"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.said, AllOf(HasSubstr("host \"e\" is there"), HasSubstr("drain it")));
  EXPECT_THAT(gangway({"undrain", "e"}).said, HasSubstr("e takes slices"));
  EXPECT_EQ(devices()[0]["draining"], false);
  executor_->signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return client.status().hosts.empty(); }));
  EXPECT_THAT(gangway({"forget", "e"}).said, HasSubstr("e is forgotten"));
  ended = gangway({"forget", "e"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.said, HasSubstr("there is no host \"e\": no host is known"));
}

TEST_F(DrainTest, ATrainingWaitsForDevicesAndSaysWhoHoldsThem) {
  gangway({"drain", "e"});
  OnTerminal trained(training({"--steps", "2", "--wait", "600", "--name", "patient"}), 120);
  ASSERT_TRUE(trained.wait_for("waiting for 2 devices, for ")) << trained.text();
  ASSERT_TRUE(trained.wait_for("draining hosts: e")) << trained.text();
  OnTerminal shown({tests::gangway_tool(), "ps", "--connect", address_}, 120);
  EXPECT_EQ(shown.end(), 0);
  EXPECT_THAT(shown.text(), AllOf(HasSubstr("WAITS FOR"), HasSubstr("2 devices")));
  EXPECT_THAT(gangway({"ps", "--json"}).said, HasSubstr("draining hosts: e"));
  gangway({"undrain", "e"});
  const int status = trained.end();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << trained.text();
  EXPECT_THAT(trained.text(), HasSubstr("on 2 devices"));
}

TEST_F(DrainTest, ATrainingThatIsToldToStopWritesACheckpointFirst) {
  AnonymousFile said("trained");
  ChildProcess trained({.arguments = training({"--steps", "100000000", "--name", "endless"}),
                        .output_file = said.path()});
  const Client client = connect(address_, {.name = "watcher"});
  ASSERT_TRUE(eventually([&] {
    const std::vector<ProgramStatus> programs = client.status().programs;
    return std::ranges::any_of(programs, [](const ProgramStatus& program) {
      return program.name == "endless" && program.runs_done > 0;
    });
  })) << output_of(said);
  const Ended ended = gangway({"stop", "endless", "--grace", "600"});
  EXPECT_EQ(ended.status, 0) << ended.said;
  EXPECT_TRUE(trained.wait().ok()) << output_of(said);
  EXPECT_THAT(output_of(said), AllOf(HasSubstr("stopped after step "), HasSubstr("to go on: ")));
}

}  // namespace
}  // namespace gangway
