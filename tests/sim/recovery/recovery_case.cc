#include "tests/sim/recovery/recovery_case.h"

#include <deque>
#include <map>
#include <optional>

#include "gangway.h"
#include "runtime/base/rng.h"
#include "runtime/os/temp_dir.h"
#include "tests/sim/with_client.h"

namespace gangway::sim {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr size_t kAhead = 3;
constexpr int64_t kRows = 8, kColumns = 4;

// "count" is cut over the devices, "trace" lies on each of them, and "steps" is the version.
Program training(bool in_double) {
  const auto type = [&](Dims dims) { return in_double ? f64(dims) : f32(dims); };
  const Mesh mesh{{{"data", 4}}};
  ProgramBuilder b("training", mesh);
  const Value count = b.state("count", zeros(type({kRows, kColumns})), {{"data", shard(0)}});
  const Value trace = b.state("trace", zeros(type({kColumns})));
  const Value steps = b.state("steps", zeros(type({})));
  const Value x = b.input("x", type({}));
  const Value next = count * 0.75 + timed(x * 0.1 + count * 0.01, 200);
  b.update(count, next + 1.0);
  b.update(trace, trace * 0.5 + mean(next * next, {0}));
  b.update(steps, steps + 1.0);
  b.output("loss", mean(next) + mean(trace));
  return b.build();
}

HostTensor number(bool in_double, double value) {
  return in_double ? HostTensor::of<double>({}, {value})
                   : HostTensor::of<float>({}, {static_cast<float>(value)});
}

double as_double(const HostTensor& tensor) {
  return tensor.type.dtype == DType::kF64 ? tensor.as<double>()[0]
                                          : static_cast<double>(tensor.as<float>()[0]);
}

double input_of(int step) { return static_cast<double>(step * 7 % 11) / 11.0; }

void pass(Reactor& reactor, int64_t ns) {
  WaitQueue().wait_until_ns("for time to pass", reactor.clock().now_ns() + ns);
}

std::vector<double> losses_of(const Executable& step, const RecoveryCase& of) {
  std::deque<Run> open;
  std::vector<double> losses;
  const auto look = [&] {
    losses.push_back(as_double(open.front()["loss"].to_host()));
    open.pop_front();
  };
  for (int i = 0; i < of.steps; ++i) {
    open.push_back(step.run({{"x", number(of.in_double, input_of(i))}}));
    if (open.size() == kAhead) look();
  }
  while (!open.empty()) look();
  return losses;
}

// Of the steps that the controller enqueues only the last loss is kept.
std::vector<double> last_loss_of(const Executable& step, const RecoveryCase& of) {
  std::vector<double> inputs;
  for (int i = 0; i < of.steps; ++i) inputs.push_back(input_of(i));
  const RepeatStatus status = step.repeat(of.steps, {{"x", Schedule::list(inputs)}}).wait();
  std::vector<double> losses;
  for (const ReportedNumber& output : status.outputs) losses.push_back(output.value);
  return losses;
}

// What is wrong with what a reader has seen; empty: nothing.
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
    const Executable step = slice.compile(training(of.in_double));
    losses = of.detached ? last_loss_of(step, of) : losses_of(step, of);
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
      const Executable step = slice.compile(training(of.in_double));
      slice.keep_checkpoints(
          {.every = of.writes_states ? 1000 : of.every, .keep = 2, .elastic = of.elastic});
      if (of.writes_states) slice.write_state("steps", number(of.in_double, 0));
      Fiber kill = reactor->spawn("kill", [&] {
        for (int i = 0; i < of.deaths; ++i) {
          pass(*reactor,
               static_cast<int64_t>(rng.below(static_cast<uint64_t>(of.within_ms * kMillisecond))));
          const int host = static_cast<int>(rng.below(static_cast<uint64_t>(of.hosts)));
          if (!cluster.alive(host)) continue;
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
        result.losses = of.detached ? last_loss_of(step, of) : losses_of(step, of);
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
