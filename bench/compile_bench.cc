// Measures how long compiling takes, from tracing to a plan with its memory, on one core.
//
//   Gpt3      GPT-3's shape with 64 experts in each of 96 layers (a scan), as programs/ trains it
//             on 2,048 devices. Budget: 2 s and 200 MiB.
//   Unrolled  A transformer of 96 small layers, all written out, on 4 devices. Budget: 0.3 s.
//
// Why it matters: a user waits for it before the first step of every program. How to read it:
// `peak_MiB` is the most memory that this process held, so filter for one benchmark to read it.
// `nodes` counts those of the functions that devices run, with the bodies of their scans, each
// once.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <functional>

#include "bench/deep_program.h"
#include "controller/plans/lower.h"
#include "ir/transforms/memory/plan_memory.h"
#include "ir/wire/wire.h"

namespace gangway::bench {
namespace {

void compile(benchmark::State& state, const std::function<Program()>& trace) {
  size_t nodes = 0;
  for (auto _ : state) {
    const Program program = program_from_wire(to_wire(trace()));
    const auto devices = static_cast<uint32_t>(program.slices[0].mesh.devices());
    CompileCache cache;
    const Plan plan = lower(program, {.slices = {{{0, 0, devices}}}, .hosts = {"host-0"}}, cache);
    nodes = 0;
    for (const LocalFunction& local : plan.functions) {
      benchmark::DoNotOptimize(plan_memory(local, {}).arena_bytes);
      nodes += nodes_with_bodies(*local.function);
    }
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  state.counters["peak_MiB"] = static_cast<double>(used.ru_maxrss) / 1024;
  state.counters["nodes"] = static_cast<double>(nodes);
}

void Gpt3(benchmark::State& state) {
  compile(state, [] { return gpt3({}); });
}
BENCHMARK(Gpt3)->Unit(benchmark::kMillisecond);

void Unrolled(benchmark::State& state) {
  compile(state, [] { return unrolled(96); });
}
BENCHMARK(Unrolled)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gangway::bench
