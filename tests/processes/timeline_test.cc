// One timeline of all processes of a local cluster, written when its client closes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "gangway.h"
#include "runtime/os/temp_dir.h"

namespace gangway {
namespace {

using testing::IsSupersetOf;

double monotonic_us() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

Program sum_program(const Mesh& mesh) {
  ProgramBuilder b("sum", mesh);
  b.output("sum", sum(b.input("x", f32({16}), {{"data", shard(0)}}), {0}));
  return b.build();
}

struct Row {
  std::string process, thread;
  auto operator<=>(const Row&) const = default;
};

// The spans of each thread by name, from the file.
std::map<Row, std::vector<nlohmann::json>> read_rows(const std::filesystem::path& path) {
  const nlohmann::json trace = nlohmann::json::parse(std::ifstream(path));
  std::map<int64_t, std::string> processes;
  std::map<std::pair<int64_t, int64_t>, Row> names;
  std::map<Row, std::vector<nlohmann::json>> rows;
  for (const auto& event : trace.at("traceEvents")) {
    const bool is_named = event.at("ph") == "M";
    if (event.at("ph") != "X" && !is_named) continue;
    if (event.at("name").get<std::string>().ends_with("sort_index")) continue;
    const int64_t pid = event.at("pid"), tid = event.at("tid");
    if (is_named && event.at("name") == "process_name") {
      EXPECT_TRUE(processes.emplace(pid, event.at("args").at("name")).second) << event;
    } else if (is_named) {
      names[{pid, tid}] = {processes.at(pid), event.at("args").at("name")};
      rows[names[{pid, tid}]];
    } else {
      rows[names.at({pid, tid})].push_back(event);
    }
  }
  return rows;
}

class TimelineTest : public testing::TestWithParam<bool> {};

TEST_P(TimelineTest, ShowsEveryProcessAndTheRunsOfEveryDevice) {
  TempDir folder;
  const std::filesystem::path path = folder.path() / "trace.json";
  const double begin_us = monotonic_us();
  const Client client =
      connect("local:2x2",
              {.in_process = GetParam(), .memory_bytes = 64 << 20, .trace_path = path.string()});
  {
    const Slice slice = client.allocate({.devices = 4});
    const Executable program = slice.compile(sum_program(slice.mesh({{"data", 4}})));
    const HostTensor x = HostTensor::of<float>({16}, std::vector<float>(16, 1.0f));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(program.run({{"x", x}})["sum"].item<float>(), 16.0f);
  }
  client.close();
  const double end_us = monotonic_us();
  std::set<std::string> processes;
  int devices = 0;
  for (const auto& [row, spans] : read_rows(path)) {
    processes.insert(row.process);
    std::set<uint64_t> runs;
    for (const auto& span : spans) {
      EXPECT_GE(span.at("ts").get<double>(), begin_us) << span;
      EXPECT_LE(span.at("ts").get<double>(), end_us) << span;
      EXPECT_TRUE(span.at("args").contains("node")) << span;
      if (span.at("name") == "run") runs.insert(span.at("args").at("run").get<uint64_t>());
    }
    if (runs.empty()) continue;
    ++devices;
    EXPECT_EQ(runs.size(), 3u) << row.process << " " << row.thread;
  }
  EXPECT_EQ(devices, 4);
  EXPECT_THAT(processes, IsSupersetOf({"host-0", "host-1"}));
  EXPECT_EQ(processes.size(), GetParam() ? 3u : 4u);  // In one process all share one reactor.
}

// 128 calls of 1 ms that pass a value to and fro between two hosts.
Program timed_chain() {
  ProgramBuilder b("timed", Mesh{});
  b.slice("second", {});
  Builder next("next");
  next.result("y", timed(next.parameter("x", f32()), 1000) + 1.0);
  const auto function = std::make_shared<const Function>(next.build());
  ProgramValue value = b.input_on(0, "x", f32());
  for (uint32_t call = 0; call < 128; ++call) {
    if (call > 0) value = b.transfer(value, call % 2);
    value = b.call(call % 2, "next", function, {value})[0];
  }
  b.output_of("y", value);
  return b.build();
}

TEST_P(TimelineTest, ControlRunsAheadTheLastCallIsEnqueuedBeforeADeviceHasDoneTheTenth) {
  TempDir folder;
  const std::filesystem::path path = folder.path() / "trace.json";
  const Client client =
      connect("local:2x1",
              {.in_process = GetParam(), .memory_bytes = 64 << 20, .trace_path = path.string()});
  const Slice first = client.allocate({.devices = 1}), second = client.allocate({.devices = 1});
  const Executable chain = first.compile(timed_chain(), std::vector<Slice>{second});
  EXPECT_EQ(chain.run({{"x", 0.0f}})["y"].item<float>(), 128.0f);
  client.close();
  // Between two calls lie a send and a receive.
  constexpr int64_t kTenth = 9 * 3, kLast = 127 * 3;
  std::vector<double> last_enqueued_us;
  double tenth_done_us = 0;  // The end of its last section.
  for (const auto& [row, spans] : read_rows(path)) {
    for (const auto& span : spans) {
      const double end_us = span.at("ts").get<double>() + span.at("dur").get<double>();
      const int64_t node = span.at("args").at("node");
      if (node == kLast && span.at("name") == "enqueue") last_enqueued_us.push_back(end_us);
      if (node == kTenth && span.at("name") == "run")
        tenth_done_us = std::max(tenth_done_us, end_us);
    }
  }
  ASSERT_GT(tenth_done_us, 0);
  ASSERT_EQ(last_enqueued_us.size(), 2u);
  for (const double enqueued_us : last_enqueued_us) EXPECT_LT(enqueued_us, tenth_done_us);
}

INSTANTIATE_TEST_SUITE_P(Clusters, TimelineTest, testing::Values(false, true),
                         [](const auto& test) { return test.param ? "InProcess" : "OfProcesses"; });

TEST(TimelineFileTest, AFileThatCannotBeWrittenIsRefusedBeforeAnythingRuns) {
  try {
    connect("local:1x1", {.in_process = true, .trace_path = "/nowhere/trace.json"});
    FAIL() << "it connected";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), testing::HasSubstr("/nowhere/trace.json"));
  }
}

}  // namespace
}  // namespace gangway
