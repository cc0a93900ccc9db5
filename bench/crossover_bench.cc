// Measures what the controller costs a program against an SPMD loop without one: many small steps,
// each of one kernel of T on every device and the all-reduce of a scalar, on the simulated cluster.
//
// Controlled: each step is a run that the client enqueues, eight ahead. The loop: all steps are
// calls of one run, so hosts go from step to step by themselves. The loop is charged only for its
// steps, not for its beginning and end, while the controlled makespan has both. Devices, kernels
// and all-reduces are the same. Processes are measured (sim/sim_process.h): on the virtual clock,
// handling a frame costs the controller and each executor the processor time that it really took,
// and system calls cost what the committed table says.
//
// How to read it: `ratio` is the controlled makespan over the loop's; `T_us` of BM_Crossover is the
// shortest kernel for which it is at most 1.05. Budget: 1,000 us at 16 hosts of 8 devices
// (Pathways: 2.3 ms). `busy_us` is the time that a run takes of the controller's one thread,
// `processor_us` the part of it that was measured. It must grow no faster than the hosts, and not
// with devices. Measured times suffer from caches that hold the whole simulated cluster; frames and
// bytes are exact.
#include <benchmark/benchmark.h>

#include <cmath>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "sim/study.h"

namespace gangway {
namespace {

constexpr int kRuns = 100;
constexpr double kCostMax = 1.05;

// Each step takes the sum of the one before it.
Program loop(int64_t devices, int64_t kernel_us, int steps) {
  const Mesh mesh{{{"data", devices}}};
  Builder step("step", mesh);
  Value x = step.parameter("x", f32({devices}), {{"data", shard(0)}});
  Value before = step.parameter("before", f32());
  step.result("sum", sum(timed(x + broadcast_to(before, {devices}), kernel_us), {0}));
  const auto function = std::make_shared<const Function>(step.build());
  ProgramBuilder b("loop", mesh);
  const ProgramValue all = b.input_on(0, "x", f32({devices}), {{"data", shard(0)}});
  ProgramValue value = b.input_on(0, "before", f32());
  for (int i = 0; i < steps; ++i) value = b.call(0, "step", function, {all, value})[0];
  b.output_of("sum", value);
  return b.build();
}

struct Shape {
  int hosts = 1, devices_per_host = 1;
  int64_t devices() const { return int64_t{1} * hosts * devices_per_host; }
};

StudyReport run(const Shape& shape, const Program& program, int runs, ProcessTime time) {
  StudyOptions options{.cluster = {.hosts = shape.hosts,
                                   .devices_per_host = shape.devices_per_host,
                                   .timed_only = true,
                                   .time = time},
                       .programs = {program},
                       .runs = runs,
                       .runs_in_flight = 8};
  options.cluster.near.jitter = {};
  StudyReport report = study(options);
  GW_REQUIRE(report.programs[0].done == runs, "loop: ", report.programs[0].error);
  return report;
}

// Returns the time of a step of the loop, which no controller takes part in.
double step_ns(const Shape& shape, int64_t kernel_us) {
  constexpr int kSteps = 8;
  const auto makespan_ns = [&](int steps) {
    const Program program = loop(shape.devices(), kernel_us, steps);
    return run(shape, program, 1, ProcessTime::kFree).makespan_ns;
  };
  return static_cast<double>(makespan_ns(1 + kSteps) - makespan_ns(1)) / kSteps;
}

struct Cost {
  double ratio = 0;
  StudyReport controlled;
};

Cost cost(const Shape& shape, int64_t kernel_us) {
  Cost cost;
  cost.controlled = run(shape, loop(shape.devices(), kernel_us, 1), kRuns, ProcessTime::kMeasured);
  cost.ratio =
      static_cast<double>(cost.controlled.makespan_ns) / (kRuns * step_ns(shape, kernel_us));
  return cost;
}

void count_controller(benchmark::State& state, const StudyReport& report) {
  const auto us_per_run = [](int64_t ns) { return static_cast<double>(ns) / (1000.0 * kRuns); };
  state.counters["busy_us"] = us_per_run(report.controller.busy_ns);
  state.counters["processor_us"] = us_per_run(report.controller.processor_ns);
  state.counters["frames"] = report.frames_per_run;
  state.counters["bytes"] = report.bytes_per_run;
}

Shape shape_of(const benchmark::State& state) {
  return {.hosts = static_cast<int>(state.range(0)),
          .devices_per_host = static_cast<int>(state.range(1))};
}

void BM_AgainstSpmdLoop(benchmark::State& state) {
  Cost measured;
  for (auto _ : state) measured = cost(shape_of(state), state.range(2));
  state.counters["ratio"] = measured.ratio;
  count_controller(state, measured.controlled);
}
BENCHMARK(BM_AgainstSpmdLoop)
    ->ArgNames({"hosts", "devices", "T_us"})
    ->ArgsProduct({{4, 16, 64, 128}, {8}, {50, 100, 200, 500, 1000, 2000}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// Halves the interval: the ratio falls as T grows, except for noise in the measurements.
void BM_Crossover(benchmark::State& state) {
  double low_us = 1, high_us = 1;
  for (auto _ : state) {
    while (cost(shape_of(state), std::llround(high_us)).ratio > kCostMax) {
      low_us = high_us;
      high_us *= 4;
    }
    while (high_us > 1.05 * low_us && high_us - low_us > 1) {
      const double middle_us = std::sqrt(low_us * high_us);
      const bool is_cheap = cost(shape_of(state), std::llround(middle_us)).ratio <= kCostMax;
      (is_cheap ? high_us : low_us) = middle_us;
    }
  }
  state.counters["T_us"] = high_us;
}
BENCHMARK(BM_Crossover)
    ->ArgNames({"hosts", "devices"})
    ->ArgsProduct({{4, 16, 64, 128}, {8}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void BM_ControllerOfManyHosts(benchmark::State& state) {
  StudyReport report;
  for (auto _ : state) {
    const Shape shape = shape_of(state);
    report = run(shape, loop(shape.devices(), 5000, 1), kRuns, ProcessTime::kMeasured);
  }
  count_controller(state, report);
}
BENCHMARK(BM_ControllerOfManyHosts)
    ->ArgNames({"hosts", "devices"})
    ->ArgsProduct({{4, 8, 16, 32, 64, 128}, {4}})
    ->ArgsProduct({{16}, {1, 2, 4, 8}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gangway
