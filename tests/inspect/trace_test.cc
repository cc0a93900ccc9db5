// Timelines as viewers read them: those of a cluster on virtual time and of a real one, and their
// cost.
#include "runtime/observe/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "gangway.h"
#include "programs/train/train.h"
#include "tests/inspect/golden.h"
#include "tests/inspect/reader.h"
#include "tests/sim/with_client.h"
#include "tests/support/small_programs.h"

namespace gangway::trace_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The contents of the trace, as the reader reports them.
json contents_of(const std::string& trace) {
  const TempDir folder;
  const Read read = run_python("check_trace.py", {file_with(folder, "trace.json", trace)});
  EXPECT_TRUE(read.ok) << read.said;
  return read.ok ? json::parse(read.said) : json::object();
}

// The smallest dumps that have every kind of event: one run on two devices of two hosts.
std::vector<TraceDump> small_dumps() {
  const TraceThread reactor{
      "reactor",
      1,
      0,
      {{"prepare", 1000, 2000, 7, 0, 0, TraceMark::kRunLeaves}, {"grant", 2500, 2500, 7}}};
  const auto host = [](const char* name, int64_t pid, int64_t late_ns) {
    const uint64_t number = trace_number(name);
    const TraceThread own{"reactor",
                          1,
                          0,
                          {{"enqueue", 3000, 3100, 7, 4, number, TraceMark::kNodeEnqueued},
                           {"take run", 2900, 3200, 7, 0, 0, TraceMark::kRunArrives}}};
    const TraceThread device{cat(name, "/0"),
                             2,
                             0,
                             {{"runs queued", 3300, 3300, 1, 0, 0, TraceMark::kCounter},
                              {"dot", 3400, 5000 + late_ns, 7, 4, 2},
                              {"run", 3300, 6000 + late_ns, 7, 4, number, TraceMark::kNodeRuns}}};
    const TraceThread meetings{
        cat(name, "/0 collectives"),
        3,
        0,
        {{"all_reduce", 5000 + late_ns, 5900 + late_ns, 7, 4, 1, TraceMark::kMeeting}}};
    return TraceDump{name, pid, {own, device, meetings}};
  };
  return {{"controller", 1, {reactor}}, host("host-2", 2, 0), host("host-10", 3, 500)};
}

TEST(TraceFileTest, ATraceIsWrittenAsTheGoldenFileSaysAndReadByAnIndependentReader) {
  const std::string trace = to_chrome_json(small_dumps());
  expect_golden("sample.trace.json", trace);
  const json contents = contents_of(trace);
  EXPECT_THAT(contents["processes"], ElementsAre("controller", "host-2", "host-10"));
  EXPECT_THAT(contents["counters"], ElementsAre("host-10/0: runs queued", "host-2/0: runs queued"));
  EXPECT_EQ(contents["arrows"], 4);
  EXPECT_THAT(contents["meetings"], ElementsAre(2));
}

TEST(TraceFileTest, TheReaderRefusesAnArrowWithoutABeginning) {
  std::vector<TraceDump> dumps = small_dumps();
  dumps.erase(dumps.begin());
  const TempDir folder;
  const Read read =
      run_python("check_trace.py", {file_with(folder, "trace.json", to_chrome_json(dumps))});
  EXPECT_FALSE(read.ok);
  EXPECT_THAT(read.said, HasSubstr("an arrow ends that has not begun"));
}

constexpr int kSteps = 5;

// Runs steps of the golden program on all devices.
void train(const Client& client, int devices, int steps) {
  const Slice slice = client.allocate({.devices = devices});
  const Executable step = slice.compile(with_batch_over(slice.mesh({{"data", devices}})));
  const HostTensor x = HostTensor::of<float>({8, 16}, std::vector<float>(128, 0.5f));
  for (int i = 0; i < steps; ++i) step.run({{"x", x}}).wait();
}

// Sends values from one slice to another and back by transfers, with each way of dispatching.
void pass_to_and_fro(const Client& client) {
  const Slice first = client.allocate({.devices = 2}), second = client.allocate({.devices = 2});
  const HostTensor x = HostTensor::of<float>({16, 8}, std::vector<float>(128, 0.5f));
  for (const Dispatch dispatch : {Dispatch::kParallel, Dispatch::kSequential}) {
    const Executable program = first.compile(there_and_back(first.mesh({{"data", 2}})),
                                             std::vector<Slice>{second}, {.dispatch = dispatch});
    for (int i = 0; i < kSteps; ++i) program.run({{"x", x}}).wait();
  }
}

std::string simulated_trace(uint64_t seed) {
  auto reactor = Reactor::make_simulated({.seed = seed});
  Tracer tracer(reactor->clock(), "simulation");
  TraceAttachment attached = tracer.attach("reactor");
  with_client(*reactor, {.tracer = &tracer}, [](SimCluster&, const Client& client) {
    train(client, 4, kSteps);
    pass_to_and_fro(client);
  });
  return to_chrome_json({tracer.drain()});
}

// The counter of memory shows that of the real kernels, of which a process's first may take more.
TEST(TraceTest, TheTraceOfASimulatedClusterIsTheSameBytesFromTheSameSeed) {
  simulated_trace(6);
  const std::string trace = simulated_trace(7);
  EXPECT_EQ(trace, simulated_trace(7));
  EXPECT_NE(trace, simulated_trace(8));
  const json contents = contents_of(trace);
  EXPECT_GE(contents["arrows"], kSteps * (2 + 4)) << "hosts take runs, and devices run nodes";
  EXPECT_THAT(contents["meetings"], ElementsAre(4));
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The cluster runs in one process, or as a client, a controller and two executors.
class LocalTraceTest : public ::testing::TestWithParam<bool> {};

TEST_P(LocalTraceTest, HasLanesArrowsCountersAndMeetings) {
  const TempDir folder;
  const std::string path = (folder.path() / "trace.json").string();
  {
    const Client client = connect(
        "local:2x2", {.in_process = GetParam(), .memory_bytes = 64 << 20, .trace_path = path});
    train(client, 4, kSteps);
    pass_to_and_fro(client);
    client.close();
  }
  const json contents = contents_of(text_of(path));
  if (GetParam()) {
    EXPECT_THAT(contents["processes"], ElementsAre("client and controller", "host-0", "host-1"));
  } else {
    EXPECT_THAT(contents["processes"], ElementsAre("client", "controller", "host-0", "host-1"));
  }
  const json lanes = contents["lanes"];
  EXPECT_THAT(std::set<std::string>(lanes.begin(), lanes.end()),
              ElementsAre("host-0/0", "host-0/0 collectives", "host-0/1", "host-0/1 collectives",
                          "host-1/0", "host-1/0 collectives", "host-1/1", "host-1/1 collectives",
                          "reactor"));
  EXPECT_GE(contents["arrows"], kSteps * (2 + 4));
  EXPECT_THAT(
      contents["counters"],
      ElementsAre("host-0/0: memory in use", "host-0/0: runs queued", "host-0/1: memory in use",
                  "host-0/1: runs queued", "host-1/0: memory in use", "host-1/0: runs queued",
                  "host-1/1: memory in use", "host-1/1: runs queued"));
  EXPECT_THAT(contents["meetings"], ElementsAre(4));
}

INSTANTIATE_TEST_SUITE_P(Clusters, LocalTraceTest, ::testing::Values(false, true),
                         [](const auto& test) { return test.param ? "InProcess" : "OfProcesses"; });

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct TracedSteps {
  int events = 0;
  double seconds = 0;  // Processor time of all threads.
};

// Runs steps of ./quickstart on four devices, with a timeline.
TracedSteps train_quickstart(int steps) {
  const TempDir folder;
  const std::string path = (folder.path() / "trace.json").string();
  programs::LanguageModelConfig config = programs::quickstart_options().config;
  config.text = file_with(folder, "text.txt", std::string(100'000, 'a'));
  TracedSteps traced;
  {
    const Client client =
        connect("local:1x4", {.in_process = true, .memory_bytes = 512 << 20, .trace_path = path});
    const Slice slice = client.allocate({.devices = 4});
    const Executable step = slice.compile(programs::train_step(config, slice.mesh({{"data", 4}})));
    const double begun = processor_seconds();
    for (int i = 1; i <= steps; ++i)
      step.run({{"lr", 1e-3f}, {"step", static_cast<float>(i)}}).wait();
    traced.seconds = processor_seconds() - begun;
    client.close();
  }
  traced.events = contents_of(text_of(path))["events"];
  return traced;
}

// docs/benchmarks.md has the table.
TEST(TraceTest, CostsAtMostAHundredthOfAQuickstartStep) {
  constexpr double kSecondsOfASpan = 100e-9;  // The budget of trace_bench.cc.
  const TracedSteps few = train_quickstart(1), more = train_quickstart(4);
  const double events = (more.events - few.events) / 3.0;
  const double seconds = (more.seconds - few.seconds) / 3.0;
  std::printf("a step: %.0f events, %.0f ms of processors, %.3f %% of it for the timeline\n",
              events, seconds * 1e3, 100 * events * kSecondsOfASpan / seconds);
  EXPECT_GT(events, 1000) << "every kernel has a span";
  EXPECT_LT(events, 4000);
  EXPECT_LT(events * kSecondsOfASpan, 0.01 * seconds);
}

}  // namespace
}  // namespace gangway::trace_test
