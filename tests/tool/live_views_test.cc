// Two programs on a cluster of processes, stopped: compares `gangway ps`, `gangway top` and the
// metrics with their clients' knowledge of them, and the dashboard with the metrics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "gangway.h"
#include "protocol/token_file.h"
#include "runtime/fibers/await.h"
#include "runtime/net/transport.h"
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
using testing::StartsWith;

using Row = std::map<std::string, std::string>;  // Cells by the column's title.

// The rows between the line of titles that contains `title` and the next empty line.
std::vector<Row> table_in(const std::vector<std::string>& lines, const std::string& title) {
  std::vector<Row> rows;
  std::vector<std::string> titles;
  for (const std::string& line : lines) {
    if (titles.empty()) {
      const std::vector<std::string> cells = cells_in(line);
      if (std::ranges::count(cells, title) > 0) titles = cells;
      continue;
    }
    if (line.find_first_not_of(' ') == line.npos) break;
    const std::vector<std::string> cells = cells_in(line);
    Row& row = rows.emplace_back();
    for (size_t i = 0; i < std::min(cells.size(), titles.size()); ++i) row[titles[i]] = cells[i];
  }
  return rows;
}

// A client's program, and the client's knowledge of it.
struct KnownProgram {
  std::string name;
  double weight;
  int32_t priority;
  uint32_t devices;
  int steps;
  std::optional<Client> client = {};
  std::optional<Slice> slice = {};
  std::optional<Executable> step = {};
  float loss = 0;
};

class LiveViewsTest : public testing::Test {
 protected:
  LiveViewsTest()
      : controller_({.arguments = {tests::gangway_tool(), "controller", "--listen", "127.0.0.1:0",
                                   "--metrics", "127.0.0.1:0"},
                     .output_file = said_.path()}) {
    EXPECT_TRUE(eventually([&] { return lines_in(output_of(said_)).size() >= 2; }));
    address_ = first_line_of(said_);
    const std::string line = lines_in(output_of(said_)).at(1), before = "metrics: http://";
    EXPECT_TRUE(line.starts_with(before) && line.ends_with("/metrics")) << line;
    metrics_address_ = line.substr(before.size(), line.rfind('/') - before.size());
    executor_.emplace(ChildOptions{
        .arguments = {tests::gangway_tool(), "executor", "--connect", address_, "--devices", "2",
                      "--name", "host-of-two", "--memory", "67108864"},
        .output_file = executor_said_.path()});
    for (KnownProgram& program : programs_) begin(program);
    EXPECT_TRUE(eventually([&] { return is_all_said(); }));
  }

  void begin(KnownProgram& program) {
    program.client.emplace(connect(
        address_, {.name = program.name, .weight = program.weight, .priority = program.priority}));
    EXPECT_TRUE(eventually([&] { return program.client->status().hosts.size() == 1; }));
    program.slice.emplace(program.client->allocate({.devices = program.devices}));
    program.step.emplace(
        program.slice->compile(accumulate(program.slice->mesh({{"data", program.devices}}))));
    const HostTensor x = HostTensor::of<float>({16, 8}, std::vector<float>(16 * 8, 0.3f));
    for (int step = 0; step < program.steps; ++step)
      program.loss = program.step->run({{"x", x}, {"scale", 1.0f}})["sum"].item<float>();
    program.client->report(
        {{"step", static_cast<double>(program.steps)}, {"loss", program.loss}, {"epoch", 1}});
  }

  bool is_all_said() const {
    for (const ProgramStatus& one : programs_[0].client->status().programs) {
      // A timer of the client frees the last outputs.
      int64_t planned = 0;
      for (const auto& device : known(one.name).step->memory().devices) planned += device.total();
      if (one.reported.size() != 3 || one.memory_bytes != planned) return false;
    }
    return true;
  }

  const KnownProgram& known(const std::string& name) const {
    const auto found = std::ranges::find(programs_, name, &KnownProgram::name);
    GW_REQUIRE(found != programs_.end(), "unknown program: ", name);
    return *found;
  }

  // The program of this name; a narrow table has only the name's beginning and a mark.
  const KnownProgram& shown_as(const std::string& cell) const {
    const bool is_cut = cell.ends_with("…");
    const std::string begin = is_cut ? cell.substr(0, cell.size() - std::strlen("…")) : cell;
    const auto found = std::ranges::find_if(programs_, [&](const KnownProgram& program) {
      return is_cut ? program.name.starts_with(begin) : program.name == begin;
    });
    GW_REQUIRE(found != programs_.end(), "shown, but not there: ", cell);
    return *found;
  }

  void expect_programs(const std::vector<std::string>& lines, uint16_t columns) {
    for (const std::string& line : lines) EXPECT_LE(tool::width_of(line), columns) << line;
    const std::vector<Row> rows = table_in(lines, "PROGRAM");
    ASSERT_EQ(rows.size(), programs_.size()) << testing::PrintToString(lines);
    std::set<std::string> seen;
    for (const Row& row : rows) {
      const KnownProgram& program = shown_as(row.at("PROGRAM"));
      seen.insert(program.name);
      EXPECT_EQ(row.at("STEP"), cat(program.steps));
      EXPECT_NEAR(std::stod(row.at("LOSS")), program.loss, 1e-3 * program.loss);
      const std::string owner = row.at("OWNER");
      EXPECT_TRUE(owner == own_user_name() || (owner.ends_with("…") && columns < 200)) << owner;
      if (columns < 200) continue;
      EXPECT_EQ(row.at("PROGRAM"), program.name);
      EXPECT_EQ(std::stod(row.at("WEIGHT")), program.weight);
      EXPECT_EQ(row.at("PRIORITY"), cat(program.priority));
      EXPECT_EQ(row.at("DEVICES"), cat(program.devices));
      EXPECT_EQ(row.at("DONE"), cat(program.steps));
      EXPECT_EQ(row.at("WAITING"), "0");
      EXPECT_EQ(row.at("IN FLIGHT"), "0");
      EXPECT_EQ(row.at("ON"), "host-of-two");
    }
    EXPECT_EQ(seen.size(), programs_.size());
  }

  // The HTTP answer's lines, without the header.
  std::vector<std::string> scrape() const {
    auto reactor = Reactor::make_real();
    const std::string answer = reactor->run([&] {
      SocketNetwork network(*reactor);
      Stream stream = network.connect(metrics_address_);
      const std::string asked = cat("GET /metrics HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer ",
                                    to_text(read_token_file(token_file({}))), "\r\n\r\n");
      await(kj::evalNow([&] { return stream->write(asked.data(), asked.size()); }));
      return await(
          stream->readAllText().then([](kj::String text) { return std::string(text.cStr()); }));
    });
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    return lines_in(answer.substr(answer.find("\r\n\r\n") + 4));
  }

  static std::string value_of(const std::vector<std::string>& page, const std::string& series) {
    std::string value = "missing";
    for (const std::string& line : page) {
      if (!line.starts_with(series + " ")) continue;
      EXPECT_EQ(value, "missing") << "twice: " << series;
      value = line.substr(series.size() + 1);
    }
    return value;
  }

  AnonymousFile said_{"controller"}, executor_said_{"executor"};
  ChildProcess controller_;
  std::string address_, metrics_address_;
  std::optional<ChildProcess> executor_;
  std::vector<KnownProgram> programs_{
      {.name = "the first of two programs with a name as long as that, and longer",
       .weight = 4,
       .priority = 2,
       .devices = 2,
       .steps = 7},
      {.name = "second", .weight = 1.5, .priority = -1, .devices = 1, .steps = 12}};
};

TEST_F(LiveViewsTest, PsShowsBothProgramsAsTheyAre) {
  for (const uint16_t columns : {80, 200}) {
    OnTerminal shown({tests::gangway_tool(), "ps", "--connect", address_}, columns);
    EXPECT_EQ(shown.end(), 0) << shown.text();
    expect_programs(lines_in(shown.text()), columns);
    const bool is_cut = shown.text().find("…") != std::string::npos;
    EXPECT_EQ(is_cut, columns == 80) << shown.text();
  }
  AnonymousFile output("output");
  ChildProcess child({.arguments = {tests::gangway_tool(), "ps", "--connect", address_, "--json"},
                      .output_file = output.path()});
  EXPECT_TRUE(child.wait().ok()) << output_of(output);
  const json rows = json::parse(output_of(output));
  ASSERT_EQ(rows.size(), programs_.size());
  for (const json& row : rows) {
    const KnownProgram& program = known(row["program"]);
    EXPECT_EQ(row["owner"], own_user_name());
    EXPECT_EQ(row["weight"], program.weight);
    EXPECT_EQ(row["priority"], program.priority);
    EXPECT_EQ(row["step"], program.steps);
    EXPECT_EQ(row["loss"], program.loss);
    EXPECT_EQ(row["devices"], program.devices);
    EXPECT_EQ(row["runs_done"], program.steps);
    EXPECT_EQ(row["hosts"], "host-of-two");
  }
  EXPECT_NE(rows[0]["program"], rows[1]["program"]);
}

TEST_F(LiveViewsTest, TopShowsBothProgramsAndTheHostAsTheyAre) {
  for (const uint16_t columns : {80, 200}) {
    OnTerminal shown({tests::gangway_tool(), "top", "--connect", address_, "--interval", "0.05"},
                     columns);
    ASSERT_TRUE(shown.wait_for("\033[H")) << shown.text();
    ASSERT_TRUE(shown.wait_for("\033[J")) << shown.text();
    const std::string text = shown.text();
    const size_t begin = text.find("\033[H");
    const std::vector<std::string> lines = lines_in(std::regex_replace(
        text.substr(begin, text.find("\033[J") - begin), std::regex("\033\\[[?0-9]*[A-Za-z]"), ""));
    EXPECT_THAT(lines.at(0), HasSubstr("1 hosts, 2 devices, 2 programs"));
    expect_programs(lines, columns);
    const std::vector<Row> hosts = table_in(lines, "HOST");
    ASSERT_EQ(hosts.size(), 1u);
    EXPECT_EQ(hosts[0].at("HOST"), "host-of-two");
    EXPECT_EQ(hosts[0].at("DEVICES"), "2 cpu");
    if (columns == 80) continue;
    EXPECT_EQ(hosts[0].at("DONE"), cat(programs_[0].steps + programs_[1].steps));
    EXPECT_THAT(hosts[0].at("RUNNING"), HasSubstr("second"));
  }
}

TEST_F(LiveViewsTest, TheMetricsAreThoseOfTheRunningProgramsAndEndWithThem) {
  const std::vector<std::string> page = scrape();
  for (const KnownProgram& program : programs_) {
    const auto value = [&](const std::string& name) {
      return value_of(page, cat("gangway_program_", name, "{owner=\"", own_user_name(),
                                "\",program=\"", program.name, "\"}"));
    };
    EXPECT_EQ(value("weight"), cat(program.weight));
    EXPECT_EQ(value("priority"), cat(program.priority));
    EXPECT_EQ(value("step"), cat(program.steps));
    EXPECT_EQ(std::stod(value("loss")), program.loss);
    EXPECT_EQ(value("devices"), cat(program.devices));
    EXPECT_EQ(value("runs_done_total"), cat(program.steps));
    EXPECT_EQ(value("runs_waiting"), "0");
    EXPECT_EQ(value("runs_in_flight"), "0");
    EXPECT_EQ(value("waits_for_slice"), "0");
    EXPECT_EQ(value("detached"), "0");
    EXPECT_EQ(value("tokens_per_second"), "missing");
  }
  const std::string host = "{host=\"host-of-two\"}";
  EXPECT_EQ(value_of(page, "gangway_hosts"), "1");
  EXPECT_EQ(value_of(page, "gangway_hosts_suspect"), "0");
  EXPECT_EQ(value_of(page, "gangway_programs"), "2");
  EXPECT_EQ(value_of(page, "gangway_runs_done_total" + host),
            cat(programs_[0].steps + programs_[1].steps));
  EXPECT_EQ(value_of(page, "gangway_host_suspect" + host), "0");
  EXPECT_EQ(value_of(page, "gangway_host_stuck_devices" + host), "0");
  EXPECT_EQ(value_of(page, "gangway_host_device_memory_bytes" + host), "67108864");
  EXPECT_EQ(value_of(page, "gangway_host_reserved_bytes" + host),
            cat(programs_[0].client->status().hosts.at(0).memory_used));
  programs_.pop_back();
  EXPECT_TRUE(eventually([&] { return value_of(scrape(), "gangway_programs") == "1"; }));
  for (const std::string& line : scrape()) EXPECT_EQ(line.find("\"second\""), line.npos) << line;
}

TEST_F(LiveViewsTest, EachMetricThatTheDashboardNamesIsInARealScrape) {
  // These metrics exist for programs that report them.
  programs_[1].client->report({{"tokens_per_s", 5}});
  const auto is_said = [&] {
    for (const std::string& line : scrape())
      if (line.starts_with("gangway_program_tokens_per_second{")) return true;
    return false;
  };
  ASSERT_TRUE(eventually(is_said));
  std::set<std::string> there;
  for (const std::string& line : scrape())
    if (!line.starts_with("#")) there.insert(line.substr(0, line.find_first_of("{ ")));
  std::ifstream file(tests::source_folder() + "/docs/grafana.json");
  const json dashboard = json::parse(file);
  EXPECT_EQ(dashboard["title"], "Gangway");
  static const std::regex metric("gangway_[a-z_]+");
  size_t named = 0;
  for (const json& panel : dashboard["panels"]) {
    ASSERT_GT(panel["targets"].size(), 0u) << panel["title"];
    for (const json& target : panel["targets"]) {
      const std::string expression = target["expr"];
      const size_t before = named;
      for (auto at = std::sregex_iterator(expression.begin(), expression.end(), metric);
           at != std::sregex_iterator(); ++at, ++named)
        EXPECT_TRUE(there.contains(at->str())) << panel["title"] << ": " << at->str();
      EXPECT_GT(named, before) << expression;
    }
  }
  EXPECT_GE(named, 20u);
}

}  // namespace
}  // namespace gangway
