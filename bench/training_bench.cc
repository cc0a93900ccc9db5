// Measures how fast language models train, as a share of the speed of the same matrix products
// alone.
//
// Why it matters: users feel it, and as a share of the product rate of the same machine and run it
// can be compared between machines. How to read it: one iteration is one step. `tokens/s`; `share`:
// the model's operations a second (bench/model_products.h says which count) over the rate that
// oneDNN reaches on the model's own shapes just before and after, the median over blocks of five
// steps; `control`: processor time of the client and of the reactors of controller and executors,
// as a share of all that the cluster used; `peak_MiB`: the executors' resident memory;
// `planned_MiB`: the plan's memory on its fullest device. QuickstartOutsideKernels runs everything
// in this process with a timeline: `outside` is the share of a step's processor time that no kernel
// had, that of the reactor, and that of the device thread between kernels (the median step); its
// label names the parts. Budget: share above 0.75 in f32 and 0.6 in bf16; outside below 0.03.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "bench/model_products.h"
#include "bench/one_process.h"
#include "bench/processes.h"
#include "bench/trained_step.h"
#include "programs/train/train.h"

namespace gangway {
namespace {

using programs::LanguageModelConfig;

LanguageModelConfig quickstart() { return programs::quickstart_options().config; }

// The reference shape: dim 256, 4 layers, 4 heads, sequence 256, batch 16.
LanguageModelConfig reference(int64_t experts, DType compute) {
  LanguageModelConfig config;
  config.batch = 16;
  config.model = {.seq = 256, .dim = 256, .layers = 4, .heads = 4, .hidden = 1024};
  config.model.compute = compute;
  if (experts > 0) {
    config.model.hidden = 512;
    config.model.moe = {.experts = experts, .top_k = 2, .groups = 4};
  }
  return config;
}

double now_s() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

struct Use {
  double all_s = bench::own_cpu_s(), control_s = all_s;  // The client counts as control.
  int64_t peak_bytes = 0;
};

Use cluster_use() {
  Use use;
  for (const bench::ProcessUse& process : bench::children_use()) {
    use.all_s += process.cpu_s;
    use.control_s += process.main_cpu_s;
    if (process.command.find(" executor ") != std::string::npos)
      use.peak_bytes += process.peak_bytes;
  }
  return use;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Steps in blocks, with the rate of their products measured between blocks. Other users of the
// machine change its speed within seconds, and then change the rate beside a block like the block.
class Meter {
 public:
  Meter(benchmark::State& state, const LanguageModelConfig& config)
      : state_(state), config_(config) {
    take_rate();
  }
  void step(bench::TrainedStep& training) {
    if (steps_ == 0) {
      first_ = cluster_use();
      begin_s_ = now_s();
    }
    training.run();
    if (++steps_ < kBlock) return;
    state_.PauseTiming();
    end_block();
    state_.ResumeTiming();
  }
  void report() {
    if (steps_ > 0) end_block();
    state_.counters["tokens/s"] =
        static_cast<double>(config_.batch * config_.model.seq) * all_steps_ / spent_s_;
    state_.counters["share"] = median(shares_);
    state_.counters["GEMM_GFLOP/s"] = median(rates_) * 1e-9;
    state_.counters["control"] = control_s_ / all_s_;
    state_.counters["peak_MiB"] = static_cast<double>(cluster_use().peak_bytes >> 20);
  }

 private:
  static constexpr int kBlock = 5, kRounds = 3;

  void take_rate() {
    const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    rates_.push_back(bench::product_rate(config_.model, config_.batch, threads, kRounds));
  }
  void end_block() {
    const double seconds = now_s() - begin_s_;
    const Use last = cluster_use();
    all_s_ += last.all_s - first_.all_s;
    control_s_ += last.control_s - first_.control_s;
    spent_s_ += seconds;
    all_steps_ += steps_;
    const double before = rates_.back();
    take_rate();
    const double rate = 2 / (1 / before + 1 / rates_.back());
    shares_.push_back(bench::step_flops(config_.model, config_.batch) * steps_ / seconds / rate);
    steps_ = 0;
  }

  benchmark::State& state_;
  const LanguageModelConfig& config_;
  std::vector<double> rates_, shares_;
  int steps_ = 0;  // Steps of the block so far.
  double begin_s_ = 0, spent_s_ = 0, all_steps_ = 0, all_s_ = 0, control_s_ = 0;
  Use first_;
};

void train(benchmark::State& state, const LanguageModelConfig& config, int64_t executors,
           int64_t devices) {
  const Client client = connect(cat("local:", executors, "x", devices));
  bench::TrainedStep training(client, config, {{"data", executors * devices}});
  training.run();
  Meter meter(state, config);
  for (auto _ : state) meter.step(training);
  meter.report();
  state.counters["planned_MiB"] = static_cast<double>(training.planned_bytes() >> 20);
}

void BM_Quickstart_1x1(benchmark::State& state) { train(state, quickstart(), 1, 1); }
void BM_Quickstart_2x2(benchmark::State& state) { train(state, quickstart(), 2, 2); }
BENCHMARK(BM_Quickstart_1x1)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Quickstart_2x2)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_Reference(benchmark::State& state, int64_t experts, DType compute) {
  train(state, reference(experts, compute), 1, 1);
}
#define GW_REFERENCE(name, experts, compute)              \
  BENCHMARK_CAPTURE(BM_Reference, name, experts, compute) \
      ->UseRealTime()                                     \
      ->Unit(benchmark::kMillisecond)
GW_REFERENCE(dense_f32, 0, DType::kF32);
GW_REFERENCE(dense_bf16, 0, DType::kBF16);
GW_REFERENCE(experts_f32, 8, DType::kF32);
GW_REFERENCE(experts_bf16, 8, DType::kBF16);

double thread_cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// One step, from the device's row of the timeline.
struct DeviceStep {
  double entries_s = 0, kernels_s = 0;
};
DeviceStep read_timeline(const TraceDump& dump, std::map<std::string, double>& by_op) {
  DeviceStep step;
  for (const TraceThread& thread : dump.threads) {
    for (const TraceEvent& event : thread.events) {
      const double seconds = static_cast<double>(event.end_ns - event.begin_ns) * 1e-9;
      const std::string name = event.name;
      if (name == "run") {
        step.entries_s += seconds;
      } else if (event.mark == TraceMark::kSpan && name != "enqueue") {
        step.kernels_s += seconds;
        by_op[name] += seconds;
      }
    }
  }
  return step;
}

// "dot 61 %, attention_grad 9 %, ...": the eight ops that cost most.
std::string shares(const std::map<std::string, double>& by_op) {
  std::vector<std::pair<double, std::string>> ops;
  double all = 0;
  for (const auto& [name, seconds] : by_op) {
    ops.emplace_back(seconds, name);
    all += seconds;
  }
  std::sort(ops.rbegin(), ops.rend());
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(8, ops.size()); ++i)
    text +=
        cat(i == 0 ? "" : ", ", ops[i].second, " ", std::lround(100 * ops[i].first / all), " %");
  return text;
}

void outside_kernels(benchmark::State& state, const LanguageModelConfig& config) {
  bench::OneProcess cluster({.traced = true});
  bench::TrainedStep training(cluster.client(), config, {{"data", 1}});
  training.run();
  cluster.drain();
  std::map<std::string, double> by_op;
  std::vector<double> outside, reactor;
  for (auto _ : state) {
    const double begin_s = thread_cpu_s();
    training.run();
    const double reactor_s = thread_cpu_s() - begin_s;
    const DeviceStep step = read_timeline(cluster.drain(), by_op);
    outside.push_back((reactor_s + step.entries_s - step.kernels_s) / (reactor_s + step.entries_s));
    reactor.push_back(reactor_s / (reactor_s + step.entries_s));
  }
  state.counters["outside"] = median(outside);
  state.counters["reactor"] = median(reactor);
  state.SetLabel(shares(by_op));
}
void BM_QuickstartOutsideKernels(benchmark::State& state) { outside_kernels(state, quickstart()); }
BENCHMARK(BM_QuickstartOutsideKernels)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_OutsideKernels(benchmark::State& state, int64_t experts, DType compute) {
  outside_kernels(state, reference(experts, compute));
}
BENCHMARK_CAPTURE(BM_OutsideKernels, dense_f32, 0, DType::kF32)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_OutsideKernels, dense_bf16, 0, DType::kBF16)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_OutsideKernels, experts_f32, 8, DType::kF32)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_OutsideKernels, experts_bf16, 8, DType::kBF16)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gangway
