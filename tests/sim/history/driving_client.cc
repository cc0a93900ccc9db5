#include "tests/sim/history/driving_client.h"

#include <algorithm>

#include "tests/sim/history/model.h"
#include "tests/sim/sim_time.h"

namespace gangway::history {
namespace {

constexpr int kActions = 50;
constexpr int64_t kExecutablesMax = 4;

}  // namespace

void DrivingClient::live() {
  Standing& standing = stage_.programs[program_];
  try {
    set_up();
    standing.is_set_up = true;
    for (int i = 0; i < kActions; ++i) act();
    look_at_all();
    read();
  } catch (const Error& why) {
    stage_.problem(program_, cat("ended: ", why.what()));
  }
  stage_.history.all_unknown(program_, "its client has gone");
  open_.clear();
  executables_.clear();
  slice_.reset();
  standing.is_over = true;
  if (client_) client_->close();
}

void DrivingClient::set_up() {
  ahead_ = 1 + rng_.below(4);
  client_ = stage_.connect(program_);
  slice_ = client_->allocate({.devices = 4});
  executables_.push_back({kStep, slice_->compile(counted_program(kStep, stage_.drawn.step_us))});
  slice_->keep_checkpoints({.every = stage_.drawn.every,
                            .keep = 2,
                            .elastic = stage_.drawn.is_elastic ? std::vector<std::string>{"data"}
                                                               : std::vector<std::string>{}});
}

void DrivingClient::act() {
  const uint64_t draw = rng_.below(100);
  if (draw < 5) return look_at_all();
  if (draw < 13) return read();
  if (draw < 20 && stage_.drawn.has_new_states && compiled_ < kExecutablesMax) return compile();
  if (draw < 26 && stage_.drawn.releases) return release();
  if (draw < 30 && stage_.drawn.detaches) return detach_and_attach();
  if (draw < 38) return stage_.pass_up_to(rng_, 3 * kMillisecond);
  run();
}

void DrivingClient::run() {
  const Named& named = executables_[rng_.below(executables_.size())];
  const int64_t x = next_x_++;
  const bool is_limited = stage_.drawn.has_limits && rng_.chance(0.7);
  const int64_t limit_ms = is_limited ? int64_t{2} << rng_.below(4) : 0;
  const size_t op = begin(OpKind::kRun, named.name, x);
  try {
    open_.push_back(
        {named.executable.run({{"x", as_input(x)}}, {.time_limit_ms = limit_ms}), op, named.name});
  } catch (const Error& why) {
    // The error is that of an earlier run that did not commit and that the client has not looked at
    // yet.
    if (why.kind() != ErrorKind::kCancelled) throw;
    return stage_.history.not_done(op, why.message());
  }
  ++submitted_;
  if (stage_.drawn.has_cancels && rng_.chance(0.05)) open_.back().run.cancel();
  while (open_.size() >= ahead_) look();
}

void DrivingClient::look() {
  const Open open = open_.front();
  open_.pop_front();
  try {
    const Values values = results_of(open.run, open.executable);
    stage_.history.told(open.op, values);
    const auto named = std::ranges::find(executables_, open.executable, &Named::name);
    if (named != executables_.end()) named->count = values.at("count");
  } catch (const Error& why) {
    if (why.kind() == ErrorKind::kCancelled) return stage_.history.not_done(open.op, why.message());
    stage_.history.unknown(open.op, why.message());
    throw;
  }
}

void DrivingClient::look_at_all() {
  while (!open_.empty()) look();
}

// The read comes after runs that are under way. If runs may fail, the client looks at all of them
// first, since the read would fail with the error of a run that it has not looked at.
void DrivingClient::read() {
  if (stage_.drawn.has_limits || stage_.drawn.has_cancels) look_at_all();
  const size_t op = begin(OpKind::kRead, "");
  Values values;
  for (const char* name : {"count", "trace"}) values[name] = value_of(slice_->read_state(name));
  for (const Named& named : executables_) {
    if (named.name == kStep) continue;
    values[own_state(named.name)] = value_of(slice_->read_state(own_state(named.name)));
  }
  stage_.history.told(op, values);
}

void DrivingClient::compile() {
  const std::string name = cat("extra-", ++compiled_);
  const size_t op = begin(OpKind::kCompile, name);
  try {
    executables_.push_back({name, slice_->compile(counted_program(name, stage_.drawn.step_us))});
  } catch (const Error& why) {
    // A host may be lost during the install, and a slice that has shrunk has too few devices for
    // the executable.
    const bool has_shrunk = stage_.drawn.is_elastic && why.kind() == ErrorKind::kInvalid;
    if (why.kind() != ErrorKind::kUnavailable && !has_shrunk) throw;
    return stage_.history.unknown(op, why.message());
  }
  stage_.history.told(op, {});
  stage_.programs[program_].states_since = submitted_;
}

// Releases an executable only if the newest checkpoint includes its runs: recovery is not promised
// if a run since then needs a released executable.
void DrivingClient::release() {
  if (is_attached_ || executables_.size() < 2) return;
  look_at_all();
  const auto at =
      executables_.begin() + 1 + static_cast<std::ptrdiff_t>(rng_.below(executables_.size() - 1));
  if (stage_.look_for_checkpoint(*client_, program_) < at->count) return;
  stage_.history.told(begin(OpKind::kRelease, at->name), {});
  executables_.erase(at);
}

void DrivingClient::detach_and_attach() {
  client_->detach();
  stage_.history.all_unknown(program_, "its client has detached");
  open_.clear();
  executables_.clear();
  slice_.reset();
  client_.reset();
  stage_.pass_up_to(rng_, 3 * kMillisecond);
  client_ = stage_.attach(program_);
  is_attached_ = true;
  for (const std::string& name : client_->executables())
    executables_.push_back({name, client_->executable(name)});
  slice_ = client_->slices().at(0);
}

}  // namespace gangway::history
