// Measures how programs share devices: four clients over executors that are processes.
//
// Why it matters: a cluster for many exists for shares and busy devices, and in virtual time
// (tests/sim/shares_test.cc) neither sockets nor threads that wake late are in the way. How to read
// it: every program runs on all devices, in steps of 1, 10, 50 and 200 ms that consist of timed
// kernels, which need no processor. An iteration observes for one second what the devices did, as
// `gangway ps` shows it. `busy`: the part of the devices' time in which they had work; `worked`:
// the same by the runs that have ended since, which is coarse for long runs; `share_0` to
// `share_3`: the programs' parts of `busy`; `off_points`: the largest distance of one of them from
// its weight's part. Budget: busy at least 0.95, shares within 5 points.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "bench/chain.h"
#include "bench/process_cluster.h"
#include "bench/timed_program.h"

namespace gangway {
namespace {

constexpr int kExecutors = 2;
constexpr int64_t kWarmUpMs = 1500;

void shares(benchmark::State& state, const std::vector<double>& weights) {
  constexpr bench::TimedSteps kSteps[] = {{5, 200}, {50, 200}, {100, 500}, {200, 1000}};
  const auto run_us = [&](size_t program) { return static_cast<double>(kSteps[program].us()); };
  const bench::ProcessCluster cluster({.executors = kExecutors, .devices = 1});
  std::vector<std::unique_ptr<bench::TimedClient>> clients;
  double all_weights = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    clients.push_back(std::make_unique<bench::TimedClient>(
        cluster.address(), bench::TimedClient::Options{.name = cat("program ", i),
                                                       .weight = weights[i],
                                                       .devices = kExecutors,
                                                       .steps = kSteps[i],
                                                       .runs_ahead = 4}));
    all_weights += weights[i];
  }
  const Client looker = connect(cluster.address(), {.name = "looker"});
  std::map<std::string, double> used;
  double seconds = 0;
  bench::pause_ms(kWarmUpMs);
  double worked_us = 0;
  for (size_t i = 0; i < clients.size(); ++i)
    worked_us -= static_cast<double>(clients[i]->runs_done()) * run_us(i);
  const double begin_us = bench::now_us();
  for (auto _ : state) {
    bench::pause_ms(1000);
    for (const ProgramStatus& program : looker.status().programs)
      used[program.name] += program.used;
    ++seconds;
  }
  for (size_t i = 0; i < clients.size(); ++i)
    worked_us += static_cast<double>(clients[i]->runs_done()) * run_us(i);
  state.counters["worked"] = worked_us / (bench::now_us() - begin_us);
  double busy = 0, off = 0;
  for (const auto& [name, sum] : used) busy += sum / seconds;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double share = used[cat("program ", i)] / seconds / busy;
    state.counters[cat("share_", i)] = share;
    off = std::max(off, std::abs(share - weights[i] / all_weights));
    if (clients[i]->failed()) state.SkipWithError(clients[i]->error().c_str());
  }
  state.counters["busy"] = busy;
  state.counters["off_points"] = 100 * off;
}

void BM_EqualShares(benchmark::State& state) { shares(state, {1, 1, 1, 1}); }
void BM_OneTwoFourEightShares(benchmark::State& state) { shares(state, {1, 2, 4, 8}); }
BENCHMARK(BM_EqualShares)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_OneTwoFourEightShares)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gangway
