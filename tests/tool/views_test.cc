// Compares the output of `gangway ps` and `gangway top` on a terminal with the knowledge of a real
// program's client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "gangway.h"
#include "runtime/base/units.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/user.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/support/small_programs.h"
#include "tests/tool/lines_in.h"
#include "tests/tool/terminal.h"
#include "tools/io/table.h"

namespace gangway {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr int kSteps = 7;
const std::string kName = "the trainer of a model that has a name as long as this one";

// A controller and an executor of two devices, and a program on them that has done its steps.
class ViewsTest : public testing::Test {
 protected:
  ViewsTest()
      : controller_({.arguments = {tests::gangway_tool(), "controller", "--listen", "127.0.0.1:0"},
                     .output_file = said_.path()}),
        address_(wait_for_address()),
        executor_({.arguments = {tests::gangway_tool(), "executor", "--connect", address_,
                                 "--devices", "2", "--name", "host-of-two", "--memory", "67108864"},
                   .output_file = executor_said_.path()}),
        client_(connect(address_, {.name = kName, .weight = 2, .priority = 3})) {
    EXPECT_TRUE(eventually([&] { return client_.status().hosts.size() == 1; }));
    slice_.emplace(client_.allocate({.devices = 2}));
    step_.emplace(slice_->compile(accumulate(slice_->mesh({{"data", 2}}))));
    const HostTensor x = HostTensor::of<float>({16, 8}, std::vector<float>(16 * 8, 0.25f));
    for (int step = 1; step <= kSteps; ++step) {
      loss_ = step_->run({{"x", x}, {"scale", 1.0f}})["sum"].item<float>();
      client_.report({{"step", static_cast<double>(step)}, {"loss", loss_}});
    }
    client_.report({{"step", kSteps}, {"loss", loss_}, {"tokens_per_s", 1234}, {"epoch", 0.5}});
    for (const auto& device : step_->memory().devices) memory_ += device.total();
    // Waits until the last report has come and the released results are freed.
    EXPECT_TRUE(eventually([&] {
      const ProgramStatus now = client_.status().programs.at(0);
      return now.reported.size() == 4 && now.memory_bytes == memory_;
    })) << "reserved: "
        << client_.status().programs.at(0).memory_bytes << ", needed: " << memory_;
  }

  std::string wait_for_address() {
    EXPECT_TRUE(eventually([&] { return !first_line_of(said_).empty(); }));
    return first_line_of(said_);
  }

  std::map<std::string, std::string> ps(uint16_t columns) {
    OnTerminal shown({tests::gangway_tool(), "ps", "--connect", address_}, columns);
    EXPECT_EQ(shown.end(), 0) << shown.text();
    const std::vector<std::string> lines = lines_in(shown.text());
    EXPECT_EQ(lines.size(), 2u) << shown.text();
    for (const std::string& line : lines) EXPECT_LE(tool::width_of(line), columns) << line;
    std::map<std::string, std::string> cells;
    const auto titles = cells_in(lines.at(0)), values = cells_in(lines.at(1));
    for (size_t i = 0; i < values.size(); ++i) cells[titles.at(i)] = values[i];
    return cells;
  }

  json json_of(const std::vector<std::string>& words) {
    AnonymousFile output("output");
    std::vector<std::string> arguments{tests::gangway_tool()};
    arguments.insert(arguments.end(), words.begin(), words.end());
    arguments.insert(arguments.end(), {"--connect", address_, "--json"});
    ChildProcess child({.arguments = arguments, .output_file = output.path()});
    EXPECT_TRUE(child.wait().ok()) << output_of(output);
    return json::parse(output_of(output));
  }

  void expect_what_the_client_knows(const json& program) {
    EXPECT_EQ(program["program"], kName);
    EXPECT_EQ(program["owner"], own_user_name());
    EXPECT_EQ(program["weight"], 2);
    EXPECT_EQ(program["priority"], 3);
    EXPECT_EQ(program["step"], kSteps);
    EXPECT_EQ(program["loss"], loss_);
    EXPECT_EQ(program["tokens_per_s"], 1234);
    EXPECT_EQ(program["reported.epoch"], 0.5);
    EXPECT_EQ(program["memory_bytes"], memory_);
    EXPECT_EQ(program["devices"], 2);
    EXPECT_EQ(program["hosts"], "host-of-two");
    EXPECT_EQ(program["runs_done"], kSteps);
    EXPECT_EQ(program["runs_in_flight"], 0);
    EXPECT_EQ(program["runs_waiting"], 0);
  }

  AnonymousFile said_{"controller"}, executor_said_{"executor"};
  ChildProcess controller_;
  const std::string address_;
  ChildProcess executor_;
  Client client_;
  std::optional<Slice> slice_;
  std::optional<Executable> step_;
  float loss_ = 0;
  int64_t memory_ = 0;
};

TEST_F(ViewsTest, ProgramsAreShownAsTheyAreOn80And200Columns) {
  const auto narrow = ps(80), wide = ps(200);
  for (const auto& shown : {narrow, wide}) {
    EXPECT_EQ(shown.at("STEP"), cat(kSteps));
    EXPECT_EQ(std::stod(shown.at("LOSS")), std::stod(cat(loss_)));
    EXPECT_EQ(shown.at("TOKENS/S"), "1234");
    EXPECT_EQ(shown.at("MEMORY"), format_bytes(static_cast<uint64_t>(memory_)));
    EXPECT_THAT(own_user_name(), StartsWith(shown.at("OWNER").substr(0, 4)));
  }
  const std::string& name = narrow.at("PROGRAM");
  ASSERT_TRUE(name.ends_with("…")) << name;
  EXPECT_THAT(kName, StartsWith(name.substr(0, name.size() - std::string("…").size())));
  EXPECT_FALSE(narrow.contains("ON"));
  EXPECT_EQ(wide.at("PROGRAM"), kName);
  EXPECT_EQ(wide.at("WEIGHT"), "2");
  EXPECT_EQ(wide.at("PRIORITY"), "3");
  EXPECT_EQ(wide.at("DEVICES"), "2");
  EXPECT_EQ(wide.at("IN FLIGHT"), "0");
  EXPECT_EQ(wide.at("WAITING"), "0");
  EXPECT_EQ(wide.at("DONE"), cat(kSteps));
  EXPECT_EQ(wide.at("ON"), "host-of-two");
  const json programs = json_of({"ps"});
  ASSERT_EQ(programs.size(), 1u);
  expect_what_the_client_knows(programs[0]);
}

TEST_F(ViewsTest, TopFollowsTheTerminalsSizeAndLeavesTheScreenAsItWas) {
  OnTerminal shown({tests::gangway_tool(), "top", "--connect", address_, "--interval", "0.05"}, 80);
  ASSERT_TRUE(shown.wait_for("\033[?1049h")) << shown.text();
  ASSERT_TRUE(shown.wait_for("1 hosts, 2 devices, 1 programs")) << shown.text();
  ASSERT_TRUE(shown.wait_for("host-of-two")) << shown.text();
  ASSERT_TRUE(shown.wait_for("the trainer")) << shown.text();
  EXPECT_THAT(shown.text(), Not(HasSubstr("WAITS FOR")));
  for (const std::string& line : lines_in(shown.text())) {
    const std::string text = std::regex_replace(line, std::regex("\033\\[[?0-9]*[A-Za-z]"), "");
    EXPECT_LE(tool::width_of(text), 80u) << text;
  }
  shown.resize(200);
  ASSERT_TRUE(shown.wait_for("WAITS FOR")) << shown.text();
  ASSERT_TRUE(shown.wait_for(kName)) << shown.text();
  shown.signal(SIGTERM);
  const int status = shown.end();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_TRUE(shown.text().ends_with("\033[?25h\033[?1049l")) << shown.text();
}

TEST_F(ViewsTest, TopSaysOnceToOthersThanTerminals) {
  const json seen = json_of({"top", "--once"});
  ASSERT_EQ(seen["programs"].size(), 1u);
  expect_what_the_client_knows(seen["programs"][0]);
  ASSERT_EQ(seen["hosts"].size(), 1u);
  EXPECT_EQ(seen["hosts"][0]["host"], "host-of-two");
  EXPECT_EQ(seen["hosts"][0]["devices"], 2);
  EXPECT_EQ(seen["hosts"][0]["memory_bytes"], 67108864);
  EXPECT_EQ(seen["hosts"][0]["memory_used"], client_.status().hosts[0].memory_used);
  EXPECT_EQ(seen["hosts"][0]["runs_done"], kSteps);
  EXPECT_EQ(seen["hosts"][0]["suspect_ms"], 0);
}

}  // namespace
}  // namespace gangway
