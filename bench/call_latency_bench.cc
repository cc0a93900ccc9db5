// Measures what a call from the client to devices and back costs: its latency, and the messages
// between the controller and each host.
//
// Why it matters: a training loop that looks at every loss pays the latency once a step. A
// controller of many hosts pays the frames and bytes for each host. How to read it: the time of one
// iteration is one run() and item(), between processes a hundred of them (`call_us` each). Ahead
// waits only while `in_flight` runs have not ended (0: as many as a client chooses). OpByOp (64
// runs, `us_per_op`) waits only for the last run, though each takes the result of the one before.
// `times_trips` is the median call over the median of two bare round trips between two processes
// (`trips_us`), taken in turns with the calls: a call goes through two processes and back. `cpu_us`
// is the processor time of one call in all processes, and `waits` counts how often one of their
// threads went to sleep: a busy machine changes them less than times. `frames` and `bytes` are
// those of one run between the controller and one host, both ways, as the controller's metrics
// count them (heartbeats included, one a second). They must not grow with nodes or with devices.
// Budget: 1.5 times the two trips; 10 us ahead; 4 frames (prepare, its tickets, its end, the
// result's release) of at most 640 bytes together.
#include <benchmark/benchmark.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "bench/chain.h"
#include "bench/one_process.h"
#include "bench/processes.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"

namespace gangway {
namespace {

// y = x + nodes, computed in `nodes` calls, on every device of the mesh.
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

Executable compiled(const Client& client, int64_t devices, int64_t nodes,
                    const CompileOptions& options = {}) {
  const Slice slice = client.allocate({.devices = devices});
  return slice.compile(count_up(slice.mesh({{"data", devices}}), nodes), options);
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

// Two processes with a socket between them; each waits for it in the system.
class BareTrips {
 public:
  BareTrips() {
    std::array<int, 2> ends{};
    GW_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
               "bare trips: no socket pair");
    child_ = fork();
    socket_ = ends[child_ == 0 ? 1 : 0];
    close(ends[child_ == 0 ? 0 : 1]);
    if (child_ != 0) return;
    while (moved(::read(socket_, frame_.data(), frame_.size())))
      if (!moved(::write(socket_, frame_.data(), frame_.size()))) break;
    _exit(0);
  }
  ~BareTrips() {
    close(socket_);
    waitpid(child_, nullptr, 0);
  }
  BareTrips(const BareTrips&) = delete;

  double us_of_two() {
    const double begin = bench::now_us();
    for (int trip = 0; trip < 2; ++trip) {
      GW_REQUIRE(moved(::write(socket_, frame_.data(), frame_.size())) &&
                     moved(::read(socket_, frame_.data(), frame_.size())),
                 "bare trips: the other process has gone");
    }
    return bench::now_us() - begin;
  }

 private:
  bool moved(ssize_t bytes) const { return bytes == static_cast<ssize_t>(frame_.size()); }

  std::array<char, 128> frame_{};
  int socket_ = -1;
  pid_t child_ = -1;
};

// Counts the effort of all processes for one of the calls since `before`.
void count_effort(benchmark::State& state, const bench::Effort& before, double calls) {
  const bench::Effort after = bench::effort();
  state.counters["cpu_us"] = (after.cpu_us - before.cpu_us) / calls;
  state.counters["waits"] = (after.waits - before.waits) / calls;
}

void BM_CallBetweenProcesses(benchmark::State& state) {
  constexpr int kCalls = 100;  // In turns with as many bare trips.
  BareTrips trips;
  const Client client = connect("local:1x1", {.memory_bytes = 64 << 20});
  const Executable executable = compiled(client, 1, 1);
  call(executable);
  trips.us_of_two();
  std::vector<double> calls, bare;
  for (auto _ : state) {
    const bench::Effort before = bench::effort();
    const double begin = bench::now_us();
    for (int i = 0; i < kCalls; ++i) {
      const double call_begin = bench::now_us();
      benchmark::DoNotOptimize(call(executable));
      calls.push_back(bench::now_us() - call_begin);
    }
    state.SetIterationTime((bench::now_us() - begin) * 1e-6);
    count_effort(state, before, kCalls);
    for (int i = 0; i < kCalls; ++i) bare.push_back(trips.us_of_two());
  }
  state.counters["call_us"] = bench::median(calls);
  state.counters["trips_us"] = bench::median(bare);
  state.counters["times_trips"] = bench::median(calls) / bench::median(bare);
}
BENCHMARK(BM_CallBetweenProcesses)->UseManualTime()->Unit(benchmark::kMicrosecond);

void BM_CallsAheadBetweenProcesses(benchmark::State& state) {
  const Client client = connect("local:1x1", {.memory_bytes = 64 << 20});
  const Executable executable = compiled(client, 1, 1, {.runs_in_flight_max = state.range(0)});
  call(executable);
  const bench::Effort before = bench::effort();
  for (auto _ : state) executable.run({{"x", 1.0f}});
  count_effort(state, before, static_cast<double>(state.iterations()));
}
BENCHMARK(BM_CallsAheadBetweenProcesses)
    ->ArgName("in_flight")
    ->Arg(0)
    ->Arg(8)
    ->Arg(64)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// A chain of runs, each of which takes the result of the one before, like a program that is written
// op by op. Only the last run is waited for.
void BM_OpByOpBetweenProcesses(benchmark::State& state) {
  constexpr int kOps = 64;
  const Client client = connect("local:1x1", {.memory_bytes = 64 << 20});
  const Slice slice = client.allocate({.devices = 1});
  const Executable next = slice.compile(count_up(slice.mesh({{"data", 1}}), 1),
                                        CompileOptions{.runs_in_flight_max = kOps});
  const Array zero = slice.from_host(HostTensor(f32()));
  std::vector<double> enqueued, chains;
  const bench::Effort before = bench::effort();
  for (auto _ : state) {
    const double begin = bench::now_us();
    Array value = zero;
    for (int op = 0; op < kOps; ++op) value = next.run({{"x", value}})["y"];
    enqueued.push_back((bench::now_us() - begin) / kOps);
    const float last = value.item<float>();
    state.SetIterationTime((bench::now_us() - begin) * 1e-6);
    chains.push_back((bench::now_us() - begin) / kOps);
    GW_REQUIRE(last == kOps, "op by op: expected ", kOps, ", got ", last);
  }
  state.counters["us_per_op"] = bench::median(chains);
  state.counters["enqueue_us"] = bench::median(enqueued);
  count_effort(state, before, static_cast<double>(state.iterations()) * kOps);
}
BENCHMARK(BM_OpByOpBetweenProcesses)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gangway
