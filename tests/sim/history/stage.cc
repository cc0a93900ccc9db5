#include "tests/sim/history/stage.h"

#include <algorithm>
#include <string_view>

#include "tests/sim/history/model.h"
#include "tests/sim/sim_time.h"

namespace gangway::history {
namespace {

constexpr std::string_view kSeen = "seen.";

ConnectOptions quiet(const std::string& program) {
  return {.name = program, .timeout_ms = 60'000, .on_warning = [](const std::string&) {}};
}

Value mixed(Value value, double factor, Value x) {
  const Value sum = value * factor + x;
  return sum - floor(sum / static_cast<double>(kModulus)) * static_cast<double>(kModulus);
}

}  // namespace

bool Stage::is_over() const {
  return std::ranges::all_of(programs, [](const auto& one) { return one.second.is_over; });
}

void Stage::pass_up_to(Rng& rng, int64_t ns) const {
  pass(reactor, static_cast<int64_t>(rng.below(static_cast<uint64_t>(ns))));
}

Client Stage::connect(const std::string& program) {
  for (Pauses pauses;; pass(reactor, pauses.next_ns())) {
    try {
      return cluster.connect(new_endpoint(), quiet(program));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnavailable) throw;
    }
  }
}

Client Stage::attach(const std::string& program) {
  for (Pauses pauses;; pass(reactor, pauses.next_ns())) {
    try {
      return cluster.attach(new_endpoint(), quiet(program));
    } catch (const Error& error) {
      // There is no controller, or it is bringing the program back.
      if (error.kind() != ErrorKind::kUnavailable && error.kind() != ErrorKind::kOverloaded) throw;
    }
  }
}

void Stage::problem(const std::string& program, const std::string& what) {
  problems.push_back(cat(history.print(program, history.ops().size()), program, ": ", what));
}

int64_t Stage::look_for_checkpoint(const Client& client, const std::string& program) {
  const size_t op = history.begin({.kind = OpKind::kCheckpoint, .program = program});
  int64_t newest = 0;
  for (const ProgramStatus& one : client.status().programs) {
    if (one.is_self) newest = static_cast<int64_t>(one.checkpoint);
  }
  history.told(op, {{"count", newest}});
  return newest;
}

int64_t Stage::newest_checkpoint(const std::string& program) const {
  for (const ProgramCounts& counts : cluster.controller.controller().program_counts()) {
    if (counts.name == program)
      return static_cast<int64_t>(counts.checkpoint.value_or(StateVersion()).value);
  }
  return 0;
}

bool Stage::may_lose_a_host() const {
  return std::ranges::all_of(programs, [&](const auto& program) {
    const auto& [name, standing] = program;
    if (standing.is_over) return true;
    const bool waits = drawn.losses_wait_for_new_states && standing.states_since > 0;
    return standing.is_set_up && (!waits || newest_checkpoint(name) > standing.states_since);
  });
}

bool Stage::may_lose_its_controller() const {
  return std::ranges::all_of(programs, [&](const auto& program) {
    const auto& [name, standing] = program;
    if (standing.is_over) return true;
    return standing.is_set_up && !standing.is_changing &&
           (standing.repeated_from == 0 || newest_checkpoint(name) > standing.repeated_from);
  });
}

Program counted_program(const std::string& executable, int64_t step_us) {
  constexpr int64_t kRows = 8;
  const Mesh mesh{{{"data", 4}}};
  ProgramBuilder b(executable, mesh);
  const Value count = b.state("count", zeros(f64({kRows})), {{"data", shard(0)}});
  const Value trace = b.state("trace", zeros(f64()));
  const Value x = b.input("x", f64());
  const Value next = timed(count, step_us) + 1.0;
  const Value next_trace = mixed(trace, 31, x);
  b.update(count, next);
  b.update(trace, next_trace);
  b.output("seen.count", mean(next));
  b.output("seen.trace", next_trace);
  if (executable != kStep) {
    const Value own = b.state(own_state(executable), zeros(f64()));
    const Value next_own = mixed(own, 3, x);
    b.update(own, next_own);
    b.output("seen.own", next_own);
  }
  return b.build();
}

HostTensor as_input(int64_t x) { return HostTensor::of<double>({}, {static_cast<double>(x)}); }

Values results_of(const Run& run, const std::string& executable) {
  run.wait();
  Values values{{"count", value_of(run["seen.count"].to_host())},
                {"trace", value_of(run["seen.trace"].to_host())}};
  if (executable != kStep) values[own_state(executable)] = value_of(run["seen.own"].to_host());
  return values;
}

Values results_of(const Reported& outputs) {
  Values values;
  for (const ReportedNumber& output : outputs) {
    if (output.name.starts_with(kSeen))
      values[output.name.substr(kSeen.size())] = static_cast<int64_t>(output.value);
  }
  return values;
}

int64_t value_of(const HostTensor& state) {
  const auto values = state.as<double>();
  const bool is_one =
      std::ranges::all_of(values, [&](double value) { return value == values.front(); });
  return is_one ? static_cast<int64_t>(values.front()) : -1;
}

}  // namespace gangway::history
