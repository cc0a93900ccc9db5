// Latency of one call from the client to a device and back: a run of one trivial node, waited for.
//
// Why it matters: a training loop that looks at every loss pays it once a step. How to read it: the
// in-process figure is the control plane alone (client, controller and executor on one thread); the
// processes add two wake-ups each way. frames_per_host and bytes_per_host count what one run costs
// one host, both ways; they must not grow with nodes or shards. Budget: 500 us between processes.
#include <benchmark/benchmark.h>

#include "client/client.h"
#include "ir/ops.h"
#include "ir/program_builder.h"
#include "protocol/frames.h"

namespace gangway {
namespace {

Program add_one() {
  ProgramBuilder b("add_one");
  Value x = b.input("x", f32());
  b.output("y", x + 1.0);
  return b.build();
}

void count_bytes(benchmark::State& state) {
  const RunFrame run{.plan = PlanId(1),
                     .run = RunId(1),
                     .arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}},
                     .outputs = {ArrayId(1)}};
  const RunDoneFrame done{.run = RunId(1), .outputs = {{0, std::vector<std::byte>(4)}}};
  const size_t words = encode(run)->size() + encode(done)->size();
  state.counters["frames_per_host"] = 2;
  state.counters["bytes_per_host"] = static_cast<double>(words * 8);
}

void round_trip(benchmark::State& state, bool in_process) {
  const Client client = connect("local:1x1", {.in_process = in_process, .memory_bytes = 64 << 20});
  const Executable step = client.allocate({.devices = 1}).compile(add_one());
  for (auto _ : state) benchmark::DoNotOptimize(step.run({{"x", 1.0f}})["y"].item<float>());
  count_bytes(state);
}

void BM_RoundTripInProcess(benchmark::State& state) { round_trip(state, true); }
BENCHMARK(BM_RoundTripInProcess)->UseRealTime()->Unit(benchmark::kMicrosecond);

// Runs enqueued ahead: what one more costs when nobody waits for each.
void BM_RunsAheadInProcess(benchmark::State& state) {
  const Client client = connect("local:1x1", {.in_process = true, .memory_bytes = 64 << 20});
  const Executable step = client.allocate({.devices = 1}).compile(add_one());
  for (auto _ : state) step.run({{"x", 1.0f}});
}
BENCHMARK(BM_RunsAheadInProcess)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_RoundTripProcesses(benchmark::State& state) { round_trip(state, false); }
BENCHMARK(BM_RoundTripProcesses)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gangway
