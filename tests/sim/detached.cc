#include "tests/sim/detached.h"

#include <memory>
#include <optional>

#include "gangway.h"
#include "runtime/fibers/fiber_group.h"
#include "sim/sim_cluster.h"
#include "tests/sim/sim_time.h"

namespace gangway {
namespace {

constexpr int64_t kTrainerDevices = 4;
constexpr char kName[] = "trainer";
constexpr int64_t kVisitsMax = 3, kStepsAtOnceMax = 60;
constexpr int kStepsMax = static_cast<int>(kVisitsMax * kStepsAtOnceMax);

// One program, from its first client to its last.
class Life {
 public:
  Life(Reactor& reactor, SimCluster& cluster, Rng rng, DetachReport& report)
      : reactor_(reactor), cluster_(cluster), rng_(rng), report_(report) {}

  int64_t steps() const { return steps_; }
  std::optional<float> last_loss() const { return last_loss_; }

  void live() {
    {
      const Client client =
          greeted([&](const std::string& from) { return cluster_.connect(from, options()); });
      const Slice slice = client.allocate({.devices = kTrainerDevices});
      const Executable step = slice.compile(falling());
      repeat(step);
      client.detach();
    }
    const int visits = 1 + static_cast<int>(rng_.below(kVisitsMax));
    for (int i = 0; i < visits; ++i) {
      pass(reactor_, static_cast<int64_t>(rng_.below(30 * kMillisecond)));
      visit(i + 1 == visits);
    }
  }

  // Closes the program, in case its last client could not.
  void end() {
    pass(reactor_, 62'000 * kMillisecond);
    if (cluster_.controller.controller().counts().clients > 0)
      cluster_.attach(endpoint(), options()).close();
    pass(reactor_, 1000 * kMillisecond);
  }

 private:
  // Greetings that are cut off are not begun again by themselves.
  template <class Dial>
  Client greeted(const Dial& dial) {
    while (true) {
      try {
        return dial(endpoint());
      } catch (const Error& error) {
        const bool was_cut =
            std::string(error.what()).find("is it a Gangway process?") != std::string::npos;
        if (!was_cut) throw;
      }
    }
  }
  std::string endpoint() { return cat("client-", ++endpoints_); }
  static ConnectOptions options() {
    return {.name = kName, .timeout_ms = 60'000, .on_warning = [](const std::string&) {}};
  }
  void problem(const std::string& what) { report_.problems.push_back(what); }

  void repeat(const Executable& step) {
    const auto count = static_cast<int64_t>(1 + rng_.below(kStepsAtOnceMax));
    step.repeat(count, {{"lr", 0.5f}, {"step", Schedule::linear(static_cast<double>(steps_), 1)}});
    asked_ = count;
    steps_ += count;
  }

  void visit(bool is_last) {
    const Client client =
        greeted([&](const std::string& from) { return cluster_.attach(from, options()); });
    ++report_.attached;
    const Executable step = client.executable("falling");
    const std::optional<Repeat> repetition = step.repetition();
    if (!repetition) return problem("a program that was repeated does not say so");
    if (!is_last && rng_.chance(0.3)) return client.detach();
    const RepeatStatus status = repetition->wait();
    if (status.done != asked_) problem(cat(status.done, " of ", asked_, " steps are done"));
    if (!status.outputs.empty()) last_loss_ = static_cast<float>(status.outputs[0].value);
    if (is_last) return client.close();
    if (rng_.chance(0.7)) repeat(step);
    client.detach();
  }

  Reactor& reactor_;
  SimCluster& cluster_;
  Rng rng_;
  DetachReport& report_;
  int endpoints_ = 0;
  int64_t steps_ = 0, asked_ = 0;
  std::optional<float> last_loss_;
};

void live_and_cut(Reactor& reactor, uint64_t seed, const std::vector<float>& alone,
                  DetachReport& report) {
  Rng rng(seed, 0xDE7AC4);
  SimCluster cluster(reactor, {.devices_per_host = 2, .time = ProcessTime::kModelled});
  Life life(reactor, cluster, rng.fork(1), report);
  bool is_over = false;
  {
    FiberGroup fibers(reactor);
    fibers.spawn("cut", [&] {
      Rng cuts = rng.fork(2);
      pass(reactor, 2 * kMillisecond);  // Greetings are not begun again.
      while (!is_over) {
        pass(reactor, static_cast<int64_t>(cuts.below(8 * kMillisecond)));
        if (!is_over) cluster.network.break_connections(cat("client-", 1 + cuts.below(4)));
      }
    });
    life.live();
    is_over = true;
  }
  life.end();
  if (cluster.controller.controller().counts().total() > 0)
    report.problems.push_back(cat("seed ", seed, ": something is left"));
  report.steps += life.steps();
  const auto last = static_cast<size_t>(life.steps() - 1);
  if (life.last_loss() != alone.at(last))
    report.problems.push_back(cat("seed ", seed, ": another loss than a client's after ", last));
}

}  // namespace

Program falling() {
  const Mesh mesh{{{"data", kTrainerDevices}}};
  ProgramBuilder b("falling", mesh);
  const Value w = b.state("w", zeros(f32({8})));
  const Value lr = b.input("lr", f32()), step = b.input("step", f32());
  const Value gradient = timed(w * 1.5 - step * 0.01 - 1.0, 500);
  const Value next = w - gradient * lr * 0.3;
  b.update(w, next);
  b.output("loss", sum(next * next, {0}));
  return b.build();
}

std::vector<float> losses_of_a_client(SimCluster& cluster, int steps) {
  const Client client = cluster.connect("alone");
  std::vector<float> losses;
  {
    const Slice slice = client.allocate({.devices = kTrainerDevices});
    const Executable step = slice.compile(falling());
    std::vector<Run> runs;
    for (int i = 0; i < steps; ++i)
      runs.push_back(step.run({{"lr", 0.5f}, {"step", static_cast<float>(i)}}));
    for (const Run& run : runs) losses.push_back(run["loss"].item<float>());
  }
  client.close();
  return losses;
}

DetachReport detach_under_faults(uint64_t seed, int programs) {
  DetachReport report;
  std::vector<float> alone;
  {
    const auto quiet = Reactor::make_simulated({.seed = seed});
    quiet->run([&] {
      SimCluster cluster(*quiet);
      alone = losses_of_a_client(cluster, kStepsMax);
    });
  }
  for (int i = 0; i < programs; ++i) {
    const uint64_t own = seed + static_cast<uint64_t>(i);
    const auto reactor = Reactor::make_simulated({.seed = own});
    reactor->on_unhandled_error = [&](const std::string& fiber, const Error& error) {
      report.problems.push_back(cat("fiber \"", fiber, "\" failed: ", error.what()));
    };
    reactor->run([&] {
      const size_t before = reactor->live_fibers();
      try {
        live_and_cut(*reactor, own, alone, report);
      } catch (const Error& error) {
        report.problems.push_back(cat("seed ", own, ": ", error.what()));
      }
      if (reactor->live_fibers() != before)
        report.problems.push_back(cat("fibers go on:\n", reactor->describe_fibers()));
    });
  }
  return report;
}

}  // namespace gangway
