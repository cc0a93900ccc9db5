#include "tests/sim/history/repeating_client.h"

#include "tests/sim/history/model.h"
#include "tests/sim/sim_time.h"

namespace gangway::history {
namespace {

constexpr int kVisitsMax = 4;
constexpr int64_t kAddedMax = 2;

}  // namespace

void RepeatingClient::live() {
  try {
    begin();
    const int visits = 1 + static_cast<int>(rng_.below(kVisitsMax));
    for (int i = 0; !visit(i + 1 >= visits); ++i) stage_.pass_up_to(rng_, 15 * kMillisecond);
  } catch (const Error& why) {
    stage_.problem(program_, cat("ended: ", why.what()));
  }
  stage_.history.all_unknown(program_, "its client has gone");
  standing().is_over = true;
}

void RepeatingClient::begin() {
  const Client client = stage_.connect(program_);
  const Slice slice = client.allocate({.devices = 4});
  const Executable step = slice.compile(counted_program(kStep, stage_.drawn.step_us));
  slice.keep_checkpoints({.every = stage_.drawn.every,
                          .keep = 2,
                          .elastic = stage_.drawn.is_elastic ? std::vector<std::string>{"data"}
                                                             : std::vector<std::string>{}});
  repeat(step);
  client.detach();
  standing().is_set_up = true;
  standing().is_changing = false;
}

void RepeatingClient::repeat(const Executable& step) {
  asked_ = 20 + static_cast<int64_t>(rng_.below(100));
  repeated_ = stage_.history.begin({.kind = OpKind::kRepeat,
                                    .program = program_,
                                    .executable = kStep,
                                    .x = next_x_,
                                    .steps = asked_});
  step.repeat(asked_, {{"x", Schedule::linear(static_cast<double>(next_x_), 1)}});
  next_x_ += asked_;
  standing().repeated_from = done_;
}

bool RepeatingClient::visit(bool is_last) {
  const int controller = stage_.history.controller();
  try {
    const Client client = stage_.attach(program_);
    const Executable step = client.executable(kStep);
    const std::optional<Repeat> repetition = step.repetition();
    GW_REQUIRE(repetition, program_, ": it was repeated, and does not say so");
    std::vector<Executable> held;
    look(*repetition);
    stage_.look_for_checkpoint(client, program_);
    if (rng_.chance(0.3)) client.set_share(1 + static_cast<double>(rng_.below(3)), 0);
    if (rng_.chance(0.4)) stage_.pass_up_to(rng_, 10 * kMillisecond);
    if (stage_.drawn.has_new_states && compiled_ < kAddedMax && rng_.chance(0.5))
      compile(client, *repetition, held);
    look(*repetition);
    const bool begins_another = !is_last && rng_.chance(0.3);
    if (is_last || begins_another) {
      if (!end(*repetition, rng_.chance(0.3))) return false;
      run_others(client);
      read(client);
    }
    if (is_last) {
      client.close();
      return true;
    }
    if (begins_another) repeat(step);
    client.detach();
  } catch (const Error&) {
    // The error is expected if the client's controller has ended.
    if (controller == stage_.history.controller()) throw;
  }
  standing().is_changing = false;
  return false;
}

void RepeatingClient::look(const Repeat& repetition) {
  const size_t op = stage_.history.begin({.kind = OpKind::kStatus, .program = program_});
  try {
    const RepeatStatus status = repetition.status();
    stage_.history.told(op, results_of(status.outputs), status.done);
    if (status.error) throw Error(*status.error);
  } catch (const Error& why) {
    if (stage_.history.ops()[op].outcome == Outcome::kOpen)
      stage_.history.unknown(op, why.message());
    throw;
  }
}

bool RepeatingClient::end(const Repeat& repetition, bool cancels) {
  const int controller = stage_.history.controller();
  if (cancels) {
    standing().is_changing = true;
    repetition.cancel();
  }
  const RepeatStatus status = repetition.wait();
  standing().is_changing = true;
  if (controller != stage_.history.controller()) {
    standing().is_changing = false;
    return false;
  }
  stage_.history.told(*repeated_, results_of(status.outputs), status.done);
  repeated_.reset();
  GW_REQUIRE(cancels || status.done == asked_, program_, ": ", status.done, " of ", asked_,
             " steps are done, and nobody has cancelled the others");
  done_ += status.done;
  return true;
}

void RepeatingClient::read(const Client& client) {
  const size_t op = stage_.history.begin({.kind = OpKind::kRead, .program = program_});
  Values values;
  const Slice slice = client.slices().at(0);
  for (const char* name : {"count", "trace"}) values[name] = value_of(slice.read_state(name));
  for (const std::string& name : client.executables()) {
    if (name != kStep) values[own_state(name)] = value_of(slice.read_state(own_state(name)));
  }
  stage_.history.told(op, values);
}

void RepeatingClient::run_others(const Client& client) {
  for (const std::string& name : client.executables()) {
    if (name == kStep) continue;
    const Executable executable = client.executable(name);
    for (uint64_t left = rng_.below(4); left > 0; --left) {
      const int64_t x = next_x_++;
      const size_t op = stage_.history.begin(
          {.kind = OpKind::kRun, .program = program_, .executable = name, .x = x});
      stage_.history.told(op, results_of(executable.run({{"x", as_input(x)}}), name));
      ++done_;
    }
  }
}

// The new executable runs only while nothing is repeated.
void RepeatingClient::compile(const Client& client, const Repeat& repetition,
                              std::vector<Executable>& held) {
  const std::string name = cat("extra-", ++compiled_);
  const size_t op =
      stage_.history.begin({.kind = OpKind::kCompile, .program = program_, .executable = name});
  try {
    held.push_back(client.slices().at(0).compile(counted_program(name, stage_.drawn.step_us)));
  } catch (const Error& why) {
    stage_.history.unknown(op, why.message());
    // DrivingClient meets the same two errors when it compiles.
    const bool has_shrunk = stage_.drawn.is_elastic && why.kind() == ErrorKind::kInvalid;
    if (why.kind() != ErrorKind::kUnavailable && !has_shrunk) throw;
    return;
  }
  stage_.history.told(op, {});
  standing().states_since = done_ + repetition.status().done;
}

}  // namespace gangway::history
