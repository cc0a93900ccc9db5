// `gangway graph NAME --connect`: shows a program of a running cluster, and the reasons for its
// placements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/support/small_programs.h"
#include "tests/tool/terminal.h"

namespace gangway {
namespace {

using testing::HasSubstr;

class GraphConnectTest : public testing::Test {
 protected:
  GraphConnectTest()
      : controller_({.arguments = {tests::gangway_tool(), "controller", "--listen", "127.0.0.1:0"},
                     .output_file = said_.path()}) {
    EXPECT_TRUE(eventually([&] { return !first_line_of(said_).empty(); }));
    address_ = first_line_of(said_);
    executor_.emplace(
        ChildOptions{.arguments = {tests::gangway_tool(), "executor", "--connect", address_,
                                   "--devices", "4", "--memory", "67108864"},
                     .output_file = executor_said_.path()});
    client_.emplace(connect(address_, {.name = "trainer"}));
    EXPECT_TRUE(eventually([&] { return client_->status().hosts.size() == 1; }));
    slice_.emplace(client_->allocate({.devices = 2}));
    program_ = accumulate(slice_->mesh({{"data", 2}}));
    step_.emplace(slice_->compile(program_));
  }

  struct Ended {
    int code = 0;
    std::string text;
  };
  Ended graph(std::vector<std::string> more) const {
    more.insert(more.begin(), {tests::gangway_tool(), "graph", "--connect", address_});
    AnonymousFile output("output");
    ChildProcess child({.arguments = std::move(more), .output_file = output.path()});
    const int code = child.wait().code;
    return {code, output_of(output)};
  }

  AnonymousFile said_{"controller"}, executor_said_{"executor"};
  ChildProcess controller_;
  std::string address_;
  std::optional<ChildProcess> executor_;
  std::optional<Client> client_;
  std::optional<Slice> slice_;
  Program program_;
  std::optional<Executable> step_;
};

TEST_F(GraphConnectTest, TheGraphShowsTheRunningProgramAndItsPlacement) {
  EXPECT_EQ(graph({"trainer", "--level", "all"}).text, print(program_));
  EXPECT_THAT(graph({"trainer", "--level", "plan"}).text, testing::StartsWith(step_->plan_text()));
  EXPECT_EQ(graph({"trainer", "--json"}).text, to_json(program_));
  EXPECT_EQ(graph({"trainer", "--why", "x"}).text, step_->explain("x"));
  EXPECT_THAT(graph({"trainer", "--why", "x"}).text,
              HasSubstr("the only host with devices: 1 host of island main, whose devices had no "
                        "other slice; 2 of its devices are left unused"));
  EXPECT_THAT(graph({"trainer", "--memory"}).text, HasSubstr("call \"main\", on each device"));
}

TEST_F(GraphConnectTest, OneOfSeveralExecutablesMustBeNamed) {
  const Executable other = slice_->compile(program_, {.name = "other"});
  const Ended which = graph({"trainer"});
  EXPECT_EQ(which.code, 2);
  EXPECT_THAT(which.text, HasSubstr("has several executables: expected one of "));
  const Ended one = graph({"trainer", "--executable", "other", "--level", "all"});
  EXPECT_EQ(one.code, 0);
  EXPECT_EQ(one.text, print(program_));
  const Ended nobody = graph({"nobody"});
  EXPECT_EQ(nobody.code, 2);
  EXPECT_THAT(nobody.text, HasSubstr("graph: there is no program \"nobody\""));
  EXPECT_EQ(graph({"trainer", "--mesh", "data=4"}).code, 2);
}

}  // namespace
}  // namespace gangway
