// Measures what parallel dispatch saves between real processes: a chain of 128 trivial calls that
// alternates between devices of two executors, dispatched both ways, in turns.
//
// Why it matters: with sequential dispatch each call waits for a message from its host to the
// controller, one back and the host's work, which parallel dispatch does ahead of the data. How to
// read it: `parallel_us` and `sequential_us` are the times from run() to the result over all nodes,
// medians of the rounds; `times_parallel` divides the two. tests/sim/overlap_test.cc checks their
// formulas in virtual time. Budget: none; sequential dispatch is for comparison.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "bench/chain.h"

namespace gangway {
namespace {

using bench::chain, bench::median, bench::us_per_run;

constexpr uint32_t kNodes = 128;

void BM_Dispatch128(benchmark::State& state) {
  const Client client =
      connect("local:2x1", {.memory_bytes = 64 << 20, .on_warning = [](const std::string&) {}});
  const Slice first = client.allocate({.devices = 1}), second = client.allocate({.devices = 1});
  const Program program = chain(2, kNodes);
  const Executable parallel = first.compile(program, {second});
  const Executable sequential =
      first.compile(program, {second}, {.dispatch = Dispatch::kSequential});
  std::vector<double> parallel_us, sequential_us;
  us_per_run(parallel, 1, kNodes);
  us_per_run(sequential, 1, kNodes);
  for (auto _ : state) {
    parallel_us.push_back(us_per_run(parallel, 1, kNodes) / kNodes);
    sequential_us.push_back(us_per_run(sequential, 1, kNodes) / kNodes);
  }
  state.counters["parallel_us"] = median(parallel_us);
  state.counters["sequential_us"] = median(sequential_us);
  state.counters["times_parallel"] = median(sequential_us) / median(parallel_us);
}
BENCHMARK(BM_Dispatch128)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gangway
