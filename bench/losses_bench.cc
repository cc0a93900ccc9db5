// Measures what a program loses when something other than its own devices fails: processes that are
// killed or stopped, beside a program on another host.
//
// Why it matters: a cluster for many is only worth its name if one program's trouble stays its own.
// How to read it: an iteration starts a cluster of processes, with a program of 5 ms of timed
// kernels a run on one host (the bystander) and another program on the other host. It counts the
// bystander's runs over `seconds`, does what the benchmark's name says to a process of the other
// program, and counts again over `seconds`. The second count begins at once, or, for the
// controller, which is stopped for 1.5 times as long, when the controller goes on. `lost_percent`
// is how much less the second count was, the median over the iterations. `named_s` is the time
// until the origin of the failure was named: in the victim's error, as a suspect in the cluster's
// status, or in the controller's log. A bystander's run that fails ends the benchmark. Budget: at
// most 5 percent; named at once, a stopped executor after 2 to 2.6 s.
#include <benchmark/benchmark.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "bench/chain.h"
#include "bench/process_cluster.h"
#include "bench/timed_program.h"
#include "runtime/os/temp_dir.h"

namespace gangway {
namespace {

using bench::now_us;

constexpr int64_t kWarmUpMs = 1000;
constexpr bench::TimedSteps kSteps{.pieces = 10, .piece_us = 500};

// A cluster of two hosts with a bystander on one of them.
struct Scene {
  bench::ProcessCluster cluster{{.executors = 2, .devices = 1}};
  bench::TimedClient bystander{cluster.address(), {.name = "bystander", .steps = kSteps}};

  // Runs on the other host, with its client in this process.
  std::unique_ptr<bench::TimedClient> victim() const {
    auto client = std::make_unique<bench::TimedClient>(
        cluster.address(), bench::TimedClient::Options{.name = "victim", .steps = kSteps});
    GW_REQUIRE(client->host() != bystander.host(), "losses: expected programs on two hosts, got ",
               client->host(), " for both");
    return client;
  }
};

struct Round {
  double kept = 0;     // The bystander's runs a second, after over before.
  double named_s = 0;  // Time after the fault.
};

// Returns the bystander's runs a second, and the seconds from `since_us` until `named` returns
// true.
double rate(const Scene& scene, int64_t seconds, const std::function<bool()>& named = {},
            double since_us = 0, double* named_s = nullptr) {
  const double begin_us = now_us();
  const int64_t before = scene.bystander.runs_done();
  while (now_us() - begin_us < 1e6 * static_cast<double>(seconds)) {
    bench::pause_ms(10);
    if (named && *named_s == 0 && named()) *named_s = (now_us() - since_us) / 1e6;
  }
  GW_REQUIRE(!scene.bystander.failed(), "losses: the bystander failed: ", scene.bystander.error());
  return static_cast<double>(scene.bystander.runs_done() - before) / (now_us() - begin_us) * 1e6;
}

// `fail` returns a function that tells whether the origin of the failure is named.
Round around(const Scene& scene, int64_t seconds,
             const std::function<std::function<bool()>()>& fail) {
  bench::pause_ms(kWarmUpMs);
  Round round;
  const double before = rate(scene, seconds);
  const double since_us = now_us();
  const std::function<bool()> named = fail();
  const double after = rate(scene, seconds, named, since_us, &round.named_s);
  if (round.named_s == 0 && bench::wait_until(10'000, named))
    round.named_s = (now_us() - since_us) / 1e6;
  GW_REQUIRE(round.named_s > 0, "losses: nobody named the culprit: ", scene.cluster.log());
  round.kept = after / before;
  return round;
}

bool logged(const Scene& scene, const std::string& text) {
  return scene.cluster.log().find(text) != std::string::npos;
}

Round killed_executor(int64_t seconds) {
  const Scene scene;
  const auto victim = scene.victim();
  return around(scene, seconds, [&] {
    kill(scene.cluster.executor(victim->host()), SIGKILL);
    return [&] { return victim->error().find(victim->host()) != std::string::npos; };
  });
}

Round stopped_executor(int64_t seconds) {
  const Scene scene;
  const auto victim = scene.victim();
  const Client looker = connect(scene.cluster.address(), {.name = "looker"});
  const pid_t culprit = scene.cluster.executor(victim->host());
  const Round round = around(scene, seconds, [&] {
    kill(culprit, SIGSTOP);
    return [&] {
      for (const HostStatus& host : looker.status().hosts) {
        if (host.name == victim->host() && host.suspect_ms > 0) return true;
      }
      return logged(scene, "host lost");
    };
  });
  kill(culprit, SIGKILL);  // Otherwise its program would have to wait for it.
  return round;
}

Round killed_client(int64_t seconds) {
  const Scene scene;
  const TempDir folder;
  const std::string file = (folder.path() / "victim.program").string();
  bench::timed_program("victim", {}, kSteps).save(file);
  const AnonymousFile said("client.log");
  const auto client = bench::start_tool(
      {"run", file, "--connect", scene.cluster.address(), "--random", "1", "--steps", "1000000"},
      said);
  return around(scene, seconds, [&] {
    kill(client->pid(), SIGKILL);
    return [&] { return logged(scene, cat("process ", client->pid())); };
  });
}

Round stopped_controller(int64_t seconds) {
  const Scene scene;
  const auto victim = scene.victim();
  double resumed_us = 0;
  Round round = around(scene, seconds, [&] {
    const double since_us = now_us();
    kill(scene.cluster.controller(), SIGSTOP);
    bench::pause_ms(1500 * seconds);
    kill(scene.cluster.controller(), SIGCONT);
    resumed_us = now_us() - since_us;
    return [&] { return logged(scene, "this process stood still"); };
  });
  round.named_s -= resumed_us / 1e6;
  GW_REQUIRE(!victim->failed(), "losses: a program failed: ", victim->error());
  return round;
}

void losses(benchmark::State& state, Round (*round)(int64_t seconds)) {
  std::vector<double> kept, named_s;
  for (auto _ : state) {
    const Round one = round(state.range(0));
    kept.push_back(one.kept);
    named_s.push_back(one.named_s);
  }
  state.counters["lost_percent"] = 100 * (1 - bench::median(kept));
  state.counters["named_s"] = bench::median(named_s);
}

// Rounds of 1 s or 3 s are only for a test.
void rounds(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("seconds")->UseRealTime()->Unit(benchmark::kSecond);
}
BENCHMARK_CAPTURE(losses, KilledExecutor, killed_executor)->Apply(rounds)->Arg(1)->Iterations(1);
BENCHMARK_CAPTURE(losses, StoppedExecutor, stopped_executor)->Apply(rounds)->Arg(3)->Iterations(1);
BENCHMARK_CAPTURE(losses, KilledClient, killed_client)->Apply(rounds)->Arg(1)->Iterations(1);
BENCHMARK_CAPTURE(losses, StoppedController, stopped_controller)
    ->Apply(rounds)
    ->Arg(1)
    ->Iterations(1);
BENCHMARK_CAPTURE(losses, KilledExecutor, killed_executor)->Apply(rounds)->Arg(10)->Iterations(5);
BENCHMARK_CAPTURE(losses, StoppedExecutor, stopped_executor)->Apply(rounds)->Arg(10)->Iterations(5);
BENCHMARK_CAPTURE(losses, KilledClient, killed_client)->Apply(rounds)->Arg(10)->Iterations(5);
BENCHMARK_CAPTURE(losses, StoppedController, stopped_controller)
    ->Apply(rounds)
    ->Arg(10)
    ->Iterations(5);

}  // namespace
}  // namespace gangway
