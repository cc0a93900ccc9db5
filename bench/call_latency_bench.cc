// What a call from the client to devices and back costs: its latency, and what it makes the
// controller and each host say to one another.
//
// Why it matters: a training loop that looks at every loss pays the latency once a step; frames and
// bytes are what a controller of many hosts pays for each. How to read it: the time of one
// iteration is one run() and item(); Ahead does not wait for each. `frames` and `bytes` are those
// of one run between the controller and one host, both ways, as the controller's metrics count them
// (heartbeats included, one a second): they must not grow with nodes or with devices. Budget:
// 500 us between processes; 3 frames (the run, its end, the result let go) of at most 512 bytes
// together.
#include <benchmark/benchmark.h>

#include "bench/one_process.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"

namespace gangway {
namespace {

// y = x + nodes, in so many calls, on every device of the mesh.
Program count_up(const Mesh& mesh, int64_t nodes) {
  ProgramBuilder b("count_up", mesh);
  Builder next("next", mesh);
  next.result("y", next.parameter("x", f32()) + 1.0);
  const auto function = std::make_shared<const Function>(next.build());
  ProgramValue value = b.input_on(0, "x", f32());
  for (int64_t node = 0; node < nodes; ++node) value = b.call(0, "next", function, {value})[0];
  b.output_of("y", value);
  return b.build();
}

Executable compiled(const Client& client, int64_t devices, int64_t nodes) {
  const Slice slice = client.allocate({.devices = devices});
  return slice.compile(count_up(slice.mesh({{"data", devices}}), nodes));
}

float call(const Executable& executable) {
  return executable.run({{"x", 1.0f}})["y"].item<float>();
}

void BM_CallInOneProcess(benchmark::State& state) {
  const int64_t devices = state.range(0), nodes = state.range(1);
  bench::OneProcess cluster({.devices = static_cast<int>(devices)});
  const Executable executable = compiled(cluster.client(), devices, nodes);
  call(executable);
  const uint64_t frames = cluster.frames(0), bytes = cluster.frame_bytes(0);
  for (auto _ : state) benchmark::DoNotOptimize(call(executable));
  const auto runs = static_cast<double>(state.iterations());
  state.counters["frames"] = static_cast<double>(cluster.frames(0) - frames) / runs;
  state.counters["bytes"] = static_cast<double>(cluster.frame_bytes(0) - bytes) / runs;
}
BENCHMARK(BM_CallInOneProcess)
    ->ArgNames({"devices", "nodes"})
    ->Args({1, 1})
    ->Args({1, 128})
    ->Args({4, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void BM_CallBetweenProcesses(benchmark::State& state) {
  const Client client = connect("local:1x1", {.memory_bytes = 64 << 20});
  const Executable executable = compiled(client, 1, 1);
  for (auto _ : state) benchmark::DoNotOptimize(call(executable));
}
BENCHMARK(BM_CallBetweenProcesses)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_CallsAheadBetweenProcesses(benchmark::State& state) {
  const Client client = connect("local:1x1", {.memory_bytes = 64 << 20});
  const Executable executable = compiled(client, 1, 1);
  call(executable);
  for (auto _ : state) executable.run({{"x", 1.0f}});
}
BENCHMARK(BM_CallsAheadBetweenProcesses)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gangway
