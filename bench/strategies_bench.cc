// Measures a training step under a strategy, against data parallelism on the same devices.
//
// Why it matters: strategies do the same work on the same cores, so the part above 1 is the cost of
// their collectives and of their smaller pieces of work. How to read it: the quickstart's model on
// 2 executors of 2 CPU devices each. One iteration is a block of five steps of data parallelism and
// one of the strategy, with steps enqueued ahead as in a training. `times_data_parallel` is the
// median over blocks, `step_ms` the strategy's own, `loss_off` the largest distance of its losses
// from data parallelism's. Budget: `times_data_parallel` at most 1.15.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench/trained_step.h"
#include "programs/train/train.h"

namespace gangway {
namespace {

constexpr int kBlock = 5;

struct Block {
  double seconds = 0;
  std::vector<float> losses;
};

Block run_block(bench::TrainedStep& training) {
  using namespace std::chrono;
  const auto begin = steady_clock::now();
  Block block;
  std::vector<Run> runs;
  for (int i = 0; i < kBlock; ++i) runs.push_back(training.enqueue());
  for (const Run& run : runs) block.losses.push_back(run["loss"].item<float>());
  block.seconds = duration<double>(steady_clock::now() - begin).count();
  return block;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void BM_Quickstart(benchmark::State& state, const char* strategy,
                   const std::vector<MeshAxis>& axes) {
  const Client client = connect("local:2x2");
  const programs::LanguageModelConfig config = programs::quickstart_options().config;
  bench::TrainedStep plain(client, config, {{"data", 4}}), other(client, config, axes, strategy);
  run_block(plain);
  run_block(other);
  std::vector<double> times, step_ms;
  double off = 0;
  for (auto _ : state) {
    const Block expected = run_block(plain), got = run_block(other);
    times.push_back(got.seconds / expected.seconds);
    step_ms.push_back(1e3 * got.seconds / kBlock);
    for (size_t i = 0; i < kBlock; ++i)
      off = std::max(off, std::abs(double{got.losses[i]} - double{expected.losses[i]}));
  }
  state.counters["times_data_parallel"] = median(times);
  state.counters["step_ms"] = median(step_ms);
  state.counters["loss_off"] = off;
}

#define GW_STRATEGY(name, strategy, ...)                                              \
  BENCHMARK_CAPTURE(BM_Quickstart, name, strategy, std::vector<MeshAxis> __VA_ARGS__) \
      ->UseRealTime()                                                                 \
      ->Unit(benchmark::kMillisecond)
GW_STRATEGY(data_parallel, "data_parallel", {{"data", 4}});
GW_STRATEGY(zero1, "zero1", {{"data", 4}});
GW_STRATEGY(zero3, "zero3", {{"data", 4}});
GW_STRATEGY(expert_parallel, "expert_parallel", {{"data", 2}, {"expert", 2}});
GW_STRATEGY(tensor, "megatron", {{"model", 4}});
GW_STRATEGY(tensor_sequence, "megatron+sequence_parallel", {{"model", 4}});
GW_STRATEGY(tensor_sequence_experts, "megatron+sequence_parallel+expert_parallel", {{"model", 4}});
GW_STRATEGY(data_tensor_sequence, "megatron+sequence_parallel", {{"data", 2}, {"model", 2}});

}  // namespace
}  // namespace gangway
