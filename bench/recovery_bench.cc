// Measures how long a training that keeps checkpoints stands still when one of its executors is
// killed.
//
// Why it matters: a program goes on by itself after a host is lost
// (controller/programs/recovery.h), and devices that it waits for meanwhile do nothing. How to read
// it: the quickstart's model on 4 devices, 2 of each executor, in processes, with a checkpoint
// every 20 steps and 4 runs ahead. One iteration is a kill, at a random moment of 20 steps. Spare:
// a third executor takes the dead one's place, so the mesh stays, and the dead one comes back as
// the next spare. Elastic: there is no spare, and "data" shrinks from 4 to 2; each kill has a
// cluster of its own. `median_s`, `worst_s`: from SIGKILL until the client has the next loss of a
// run that had not ended before; `steps`, `worst_steps`: the same over the median step before the
// kill, `step_ms`; `noticed_s`: until the loss of the host was reported to the client; `again`: how
// many runs were run a second time (medians). `loss_off`: the largest distance of a loss from that
// of the same step without a kill; 0 if the mesh stays. Budget: 5 s.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <memory>
#include <vector>

#include "bench/chain.h"
#include "bench/process_cluster.h"
#include "bench/trained_step.h"
#include "programs/train/train.h"
#include "runtime/base/rng.h"

namespace gangway {
namespace {

using bench::now_us;

constexpr uint64_t kEvery = 20;
constexpr int kWarmUp = 10;  // Steps before the first kill may come.
constexpr int kBehind = 8;   // Steps measured after a kill.
constexpr size_t kAhead = 4;
constexpr int64_t kStartMs = 20'000;

// The newest lines that the client's user got, and when.
struct Told {
  std::atomic<double> lost_us = 0;
  std::atomic<int> again = 0;
  std::atomic<bool> goes_on = false;

  void operator()(const std::string& line) {
    const std::string begin = "goes back to version ", runs = ", and ";
    const size_t back = line.find(begin), count = line.find(runs, back);
    if (back != line.npos && count != line.npos) {
      lost_us = now_us();
      again = std::stoi(line.substr(count + runs.size()));
    }
    if (line.find("the program goes on on") != line.npos) goes_on = true;
  }
};

struct Kill {
  double seconds = 0, steps = 0, step_ms = 0, noticed_s = 0;
  double again = 0;
};

// A training whose steps can be observed one after another.
class Training {
 public:
  explicit Training(int executors)
      : cluster_({.executors = executors, .devices = 2, .memory_mib = 512}),
        client_(
            connect(cluster_.address(),
                    {.name = "trained",
                     .on_warning = [told = told_](const std::string& line) { (*told)(line); }})),
        step_(std::make_unique<bench::TrainedStep>(client_, programs::quickstart_options().config,
                                                   std::vector<MeshAxis>{{"data", 4}})) {}
  ~Training() {
    runs_.clear();
    step_.reset();
    client_.close();
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  void keep_checkpoints(std::vector<std::string> elastic) {
    step_->slice().keep_checkpoints({.every = kEvery, .elastic = std::move(elastic)});
  }
  // Waits for the oldest run under way, and keeps as many ahead.
  void step() {
    while (runs_.size() < kAhead) runs_.push_back(step_->enqueue());
    losses.push_back(runs_.front()["loss"].item<float>());
    runs_.pop_front();
    came_us_.push_back(now_us());
  }
  // Kills one of its hosts behind `steps` steps. The next good loss is the one with the longest
  // wait: losses that came before it were on their way to the client when the host was killed.
  Kill kill_behind(int steps, Rng& rng, bool comes_back) {
    told_->goes_on = false;
    for (int i = 0; i < steps; ++i) step();
    Kill kill{.step_ms = 1e-3 * median_step_us(steps)};
    const std::vector<std::string> hosts = own().hosts;
    const std::string& victim = hosts[rng.below(hosts.size())];
    const double killed_us = now_us();
    cluster_.kill_executor(victim);
    double before_us = killed_us, longest_us = 0;
    for (int i = 0; i < kBehind || !told_->goes_on; ++i) {
      step();
      if (came_us_.back() - before_us > longest_us) {
        longest_us = came_us_.back() - before_us;
        kill.seconds = (came_us_.back() - killed_us) * 1e-6;
      }
      before_us = came_us_.back();
    }
    kill.steps = kill.seconds * 1e3 / kill.step_ms;
    kill.noticed_s = (told_->lost_us - killed_us) * 1e-6;
    kill.again = told_->again;
    if (comes_back) {
      const size_t all = client_.status().hosts.size() + 1;
      cluster_.start_again(victim);
      const bool is_back =
          bench::wait_until(kStartMs, [&] { return client_.status().hosts.size() >= all; });
      GW_REQUIRE(is_back, "recovery: a host did not come back: ", cluster_.log());
    }
    return kill;
  }

  std::vector<float> losses;

 private:
  ProgramStatus own() const {
    for (const ProgramStatus& program : client_.status().programs) {
      if (program.is_self) return program;
    }
    throw Error(ErrorKind::kUnavailable, "recovery: the status lacks the client's own program");
  }
  double median_step_us(int steps) const {
    std::vector<double> times;
    for (size_t i = came_us_.size() - static_cast<size_t>(steps) + 1; i < came_us_.size(); ++i)
      times.push_back(came_us_[i] - came_us_[i - 1]);
    return bench::median(times);
  }

  const std::shared_ptr<Told> told_ = std::make_shared<Told>();
  bench::ProcessCluster cluster_;
  Client client_;
  std::unique_ptr<bench::TrainedStep> step_;
  std::deque<Run> runs_;
  std::vector<double> came_us_;
};

class Report {
 public:
  void add(const Kill& kill) { kills_.push_back(kill); }
  void compare(const std::vector<float>& losses) {
    Training alone(2);
    for (size_t i = 0; i < losses.size(); ++i) {
      alone.step();
      off_ = std::max(off_, std::abs(double{losses[i]} - double{alone.losses[i]}));
    }
  }
  void into(benchmark::State& state) const {
    state.counters["median_s"] = bench::median(all(&Kill::seconds));
    state.counters["worst_s"] = std::ranges::max(all(&Kill::seconds));
    state.counters["steps"] = bench::median(all(&Kill::steps));
    state.counters["worst_steps"] = std::ranges::max(all(&Kill::steps));
    state.counters["step_ms"] = bench::median(all(&Kill::step_ms));
    state.counters["noticed_s"] = bench::median(all(&Kill::noticed_s));
    state.counters["again"] = bench::median(all(&Kill::again));
    state.counters["loss_off"] = off_;
  }

 private:
  std::vector<double> all(double Kill::* what) const {
    std::vector<double> values;
    for (const Kill& kill : kills_) values.push_back(kill.*what);
    return values;
  }

  std::vector<Kill> kills_;
  double off_ = 0;
};

int steps_until_kill(Rng& rng) { return kWarmUp + static_cast<int>(rng.below(kEvery)); }

void BM_Spare(benchmark::State& state) {
  Rng rng(7);
  Report report;
  Training training(3);
  training.keep_checkpoints({});
  for (auto _ : state) report.add(training.kill_behind(steps_until_kill(rng), rng, true));
  report.compare(training.losses);
  report.into(state);
}

void BM_Elastic(benchmark::State& state) {
  Rng rng(7);
  Report report;
  std::vector<float> longest;
  for (auto _ : state) {
    Training training(2);
    training.keep_checkpoints({"data"});
    report.add(training.kill_behind(kEvery + steps_until_kill(rng), rng, false));
    if (training.losses.size() > longest.size()) longest = training.losses;
  }
  report.compare(longest);
  report.into(state);
}

// The number of kills is that of the iterations. It is in the name, for scripts that choose by
// name.
#define GW_RECOVERY(function, kills)                                                         \
  BENCHMARK(function)->ArgName("kills")->Arg(kills)->Iterations(kills)->UseRealTime()->Unit( \
      benchmark::kSecond)
GW_RECOVERY(BM_Spare, 1);
GW_RECOVERY(BM_Elastic, 1);
GW_RECOVERY(BM_Spare, 20);
GW_RECOVERY(BM_Elastic, 10);

}  // namespace
}  // namespace gangway
