// Measures what it costs to feed a step from host tensors, which travel with the run, instead of
// arrays that lie on the devices already.
//
// Why it matters: a loop that reads its own data gives each step some KiB of it, which must not
// cost a step of its own. How to read it: a step of gradient descent on 2x2 devices gets 6 KiB,
// with one run() and item(). `times_arrays` is the median step fed with tensors over the median
// step fed with arrays, taken in turns. With `busy`, as many threads as there are cores compete for
// them all the time. Budget: 1.1 times.
#include <benchmark/benchmark.h>

#include <atomic>
#include <thread>
#include <vector>

#include "bench/chain.h"
#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "runtime/os/thread.h"

namespace gangway {
namespace {

constexpr int64_t kRows = 32, kColumns = 48;

Program descent(const Mesh& mesh) {
  ProgramBuilder b("descent", mesh);
  const Value w = b.state("w", filled(f32({kColumns, 1}), 0.01));
  const Value x = b.input("x", f32({kRows, kColumns}), {{"data", shard(0)}});
  const Value loss = mean(square(dot(x, w)));
  b.update(w, w - 0.001 * gradients(loss, {w})[0]);
  b.output("loss", loss);
  return b.build();
}

double us_of(const Executable& step, const Argument& x) {
  const double begin = bench::now_us();
  benchmark::DoNotOptimize(step.run({x})["loss"].item<float>());
  return bench::now_us() - begin;
}

void BM_StepFedFromHost(benchmark::State& state) {
  std::atomic<bool> stop{false};
  std::vector<Thread> others;
  if (state.range(0) != 0) {
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i)
      others.emplace_back("busy", [&] {
        while (!stop.load(std::memory_order_relaxed)) {
        }
      });
  }
  const Client client = connect("local:2x2", {.memory_bytes = 64 << 20});
  const Slice slice = client.allocate({.devices = 4});
  const Executable step = slice.compile(descent(slice.mesh({{"data", 4}})));
  HostTensor rows(f32({kRows, kColumns}));
  const Array placed = slice.from_host(rows);
  us_of(step, {"x", rows});
  us_of(step, {"x", placed});
  std::vector<double> fed, arrays;
  for (auto _ : state) {
    fed.push_back(us_of(step, {"x", rows}));
    arrays.push_back(us_of(step, {"x", placed}));
    state.SetIterationTime(fed.back() * 1e-6);
  }
  stop = true;
  state.counters["arrays_us"] = bench::median(arrays);
  state.counters["times_arrays"] = bench::median(fed) / bench::median(arrays);
}
BENCHMARK(BM_StepFedFromHost)
    ->ArgName("busy")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace gangway
