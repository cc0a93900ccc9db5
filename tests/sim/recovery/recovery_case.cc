#include "tests/sim/recovery/recovery_case.h"

#include <deque>
#include <map>
#include <optional>

#include "runtime/base/rng.h"
#include "runtime/os/temp_dir.h"
#include "tests/sim/recovery/trained_program.h"
#include "tests/sim/sim_time.h"
#include "tests/sim/with_client.h"

namespace gangway::sim {
namespace {

constexpr size_t kAhead = 3;

std::vector<double> losses_of(const std::vector<Executable>& steps, const RecoveryCase& of) {
  std::deque<Run> open;
  std::vector<double> losses;
  const auto look = [&] {
    losses.push_back(as_double(open.front()["loss"].to_host()));
    open.pop_front();
  };
  for (int i = 0; i < of.steps; ++i) {
    const Executable& step = steps[static_cast<size_t>(i) % steps.size()];
    open.push_back(step.run({{"x", number(input_of(i), of.in_double)}}));
    if (open.size() == kAhead) look();
  }
  while (!open.empty()) look();
  return losses;
}

// The controller keeps only the last loss of the steps that it enqueues.
std::vector<double> last_loss_of(const Executable& step, const RecoveryCase& of) {
  const RepeatStatus status = step.repeat(of.steps, {{"x", inputs_of_steps()}}).wait();
  std::vector<double> losses;
  for (const ReportedNumber& output : status.outputs) losses.push_back(output.value);
  return losses;
}

// Its peers notice at once that what they write there is lost.
void vanish(SimCluster& cluster, int host, int hosts) {
  for (int peer = 0; peer < hosts; ++peer) {
    if (peer != host) cluster.break_link(peer, host);
  }
  cluster.vanish(host);
}

// The first wrong value that a reader has seen; empty if there is none.
std::string read_along(const SharedStates& states, const std::map<int, Snapshot>& asked) {
  double latest = 0;
  for (const auto& [version, then] : asked) {
    const double at = as_double(then.read("steps"));
    if (at != version) return cat("version ", version, " is ", at);
    const double now = as_double(states.latest().read("steps"));
    if (now < latest || now < at) return cat("the latest was ", latest, ", and is ", now);
    latest = now;
  }
  return {};
}

}  // namespace

std::vector<double> undisturbed_losses(const RecoveryCase& of) {
  std::vector<double> losses;
  auto reactor = Reactor::make_simulated({.seed = 5});
  with_client(*reactor, {}, [&](SimCluster&, const Client& client) {
    const Slice slice = client.allocate({.devices = 4});
    const Executable step = slice.compile(trained_program(of.in_double));
    losses = of.detached ? last_loss_of(step, of) : losses_of({step}, of);
  });
  return losses;
}

Recovered recover(const RecoveryCase& of) {
  Recovered result;
  const TempDir root;
  Rng rng(of.seed, 0x4EC0);
  auto reactor = Reactor::make_simulated({.seed = of.seed});
  reactor->run([&] {
    SimCluster cluster(*reactor, {.hosts = of.hosts,
                                  .checkpoint_folder = root.path().string(),
                                  .time = ProcessTime::kModelled});
    const auto told = [&](const std::string& line) {
      result.told.push_back(line);
      result.brought_back += line.find("the program goes on on") != std::string::npos ? 1 : 0;
    };
    const Client client = cluster.connect("client", {.on_warning = told});
    const Client reader = cluster.connect("reader");
    {
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = slice.compile(trained_program(of.in_double));
      std::vector<Executable> steps{step};
      for (int i = 1; i < of.executables; ++i)
        steps.push_back(slice.compile(trained_program(of.in_double), {.name = cat("step", i)}));
      slice.keep_checkpoints(
          {.every = of.writes_states ? 1000 : of.every, .keep = 2, .elastic = of.elastic});
      if (of.writes_states) slice.write_state("steps", number(0, of.in_double));
      Fiber kill = reactor->spawn("kill", [&] {
        for (int i = 0; i < of.deaths; ++i) {
          pass(*reactor,
               static_cast<int64_t>(rng.below(static_cast<uint64_t>(of.within_ms * kMillisecond))));
          const int host = static_cast<int>(rng.below(static_cast<uint64_t>(of.hosts)));
          if (!cluster.alive(host)) continue;
          if (of.vanish) {
            vanish(cluster, host, of.hosts);
            continue;
          }
          cluster.kill(host);
          if (of.come_back && rng.below(2) == 0) cluster.start_again(host);
        }
      });
      std::optional<SharedStates> states;
      std::map<int, Snapshot> asked;
      if (of.evaluates) states = reader.open_states("client");
      for (int version = 3; of.evaluates && version <= of.steps; version += 5)
        asked.emplace(version, states->at(static_cast<uint64_t>(version)));
      Fiber read = reactor->spawn("read", [&] {
        if (of.evaluates) result.wrong = read_along(*states, asked);
      });
      try {
        result.losses = of.detached ? last_loss_of(step, of) : losses_of(steps, of);
      } catch (const Error& error) {
        result.failed = error.message();
      }
      kill.join();
      read.join();
    }
    client.close();
    reader.close();
    pass(*reactor, 20'000 * kMillisecond);
    const uint64_t left = cluster.controller.controller().counts().total();
    if (left > 0) result.wrong += cat(left, " things are left behind");
  });
  return result;
}

}  // namespace gangway::sim
