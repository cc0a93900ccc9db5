// The device's side of a run: it advances from entry to entry.
#include <algorithm>
#include <utility>

#include "executor/replay/device_run.h"
#include "ir/plan/sequential.h"
#include "runtime/base/error.h"

namespace gangway {

// Has no effect once this device has sent its word to the gate, since the others commit because of
// it.
void DeviceRun::look_for_cancel(const Entry& entry) {
  if (passed_ || (begun_ && entry.kind == EntryKind::kGate)) return;
  if (!cancel_wanted_.load(std::memory_order_acquire)) return;
  poison(cancel_error_, true);
}

// Whether all that was started so far is done. A failure of it poisons the run.
bool DeviceRun::landed(Turn& turn) {
  if (!turn.stream.discrete()) return true;
  if (!marked_) mark_ = turn.stream.mark();
  marked_ = true;
  if (arguments_settling()) return false;  // Their marks come before this one.
  std::shared_ptr<const Error> failure;
  if (turn.stream.reached(mark_, &failure) == Progress::kPending) return false;
  marked_ = false;
  look_at_failure(failure);
  look_at_arguments();
  return true;
}

// Whether runs and puts that fill the arguments are launched, but not known to be done.
bool DeviceRun::arguments_settling() const {
  return std::any_of(inputs_.arguments.begin(), inputs_.arguments.end(),
                     [](const BufferPtr& buffer) { return buffer != nullptr && buffer->settling; });
}

// Values read from a run or a put that has failed since are not valid.
void DeviceRun::look_at_arguments() {
  for (const BufferPtr& buffer : inputs_.arguments) {
    if (buffer != nullptr) look_at_failure(buffer->error);
  }
}

void DeviceRun::look_at_failure(const std::shared_ptr<const Error>& failure) {
  if (failure == nullptr) return;
  if (!passed_ || !laid_.has_commit) return poison(failure, failure != peer_failed());
  poison(std::make_shared<const Error>(ErrorKind::kLost,
                                       cat("run: its commit failed: ", failure->message()),
                                       failure->where(), "restore the states from a checkpoint"),
         true);
}

// The plan's runs follow one another on the device: the one before has ended.
void DeviceRun::begin(Turn& turn) {
  started_ = true;
  entry_start_ns_ = turn.stream.trace.row == nullptr ? 0 : turn.stream.now_ns();
  record_begin(turn);
  record_counters(turn);
  copy_inline_inputs(turn);
  enter_region();
  const RunId after = inputs_.after;
  if (after == RunId() || !laid_.has_commit || plan_.last_committed == after) return;
  poison(std::make_shared<const Error>(
             ErrorKind::kCancelled,
             "run: nothing was committed, since the run before it did not commit",
             Where{.program = laid_.plan->name}, "handle the error of that run, then run again"),
         true);
}

// A run that enters while another is inside would overwrite what that one computes with. A run that
// was given up before it began comes out of order, and computes nothing.
void DeviceRun::enter_region() {
  if (laid_.region == nullptr || abandoned()) return;
  entered_ = laid_.region->enter(run_);
  if (entered_) return;
  poison(std::make_shared<const Error>(
             ErrorKind::kBug,
             cat("run: its temporaries lie where those of run ", laid_.region->inside(),
                 " lie, which has not ended on ", laid_.device->name()),
             Where{.program = laid_.plan->name}),
         true);
}

Progress DeviceRun::advance(Turn& turn) {
  if (!started_) begin(turn);
  if (!clock_.is_used()) return advance_entries(turn);
  clock_.start(turn);
  const uint32_t first = cursor_;
  const Progress progress = advance_entries(turn);
  clock_.block(progress == Progress::kPending && counts_block());
  if (begun_ || cursor_ != first) stop_clock(turn);
  return progress;
}

// The time counts for the entry at the cursor, if it has begun, or for the one before.
void DeviceRun::stop_clock(const Turn& turn) {
  const uint32_t last = begun_ || cursor_ == 0 ? cursor_ : cursor_ - 1;
  const uint32_t entry = error_ == nullptr ? last : kNone;
  if (!clock_.stop(device_time_ns(turn), entry, cursor_)) return;
  mailbox_.post([this, alive = listener_.alive] {
    if (*alive) listener_.sections_ended(*this);
  });
}

Progress DeviceRun::advance_entries(Turn& turn) {
  while (cursor_ < laid_.entries.size()) {
    const Entry& entry = laid_.entries[cursor_];
    // A commit waits for no other device. Were it ended halfway, it would leave a state that no
    // step has computed.
    const bool committing = passed_ && entry.kind == EntryKind::kCommit;
    const bool abandoned = abandoned_.load(std::memory_order_acquire);
    if (!committing && abandoned) {
      if (sources_pending()) return Progress::kPending;
      look_for_cancel(entry);  // The cancel may have the reason.
      poison(std::make_shared<const Error>(ErrorKind::kCancelled, "run: its plan was given up"),
             true);
      break;
    }
    // A run that was given up gets no more tickets: its commit ends without.
    if (!abandoned && cursor_ >= granted_.load(std::memory_order_acquire))
      return Progress::kPending;
    look_for_cancel(entry);
    if (!begun_ && error_ == nullptr && arguments_pending(entry)) return Progress::kPending;
    progress_ = 2 * cursor_ + 1;
    if (advance_entry(entry, turn) == Progress::kPending) return Progress::kPending;
    begun_ = false;
    const bool overlapped =
        entry.kind == EntryKind::kCall && frames_[entry.node].overlapped_count > 0;
    // Entries that a run that was given up commits without a ticket have no place in the order.
    if (laid_.order_log != nullptr && cursor_ < granted_.load(std::memory_order_acquire))
      record_order(entry);
    progress_ = 2 * ++cursor_;
    record_span(entry, turn);
    if (clock_.stops_at_each()) {
      clock_.block(false);
      stop_clock(turn);
    }
    // Collectives that overlap with the next section were not joined, so no other work may come
    // before it.
    if (!overlapped && over(turn)) return Progress::kMore;
  }
  progress_ = 2 * cursor_ + 1;
  turn.stream.trace.runs_queued.fetch_sub(1, std::memory_order_relaxed);
  record_counters(turn);
  finish(turn);
  return Progress::kDone;
}

// Whether others may come before the entry at the cursor.
bool DeviceRun::over(const Turn& turn) const {
  if (cursor_ == laid_.entries.size()) return false;
  // Tickets that are granted now may be behind another's: the queue checks.
  if (cursor_ >= granted_.load(std::memory_order_acquire)) return true;
  // Others on the device may have got the tickets between.
  const bool gap = !turn.alone && tickets_[cursor_] != tickets_[cursor_ - 1] + 1;
  return gap || turn.over_before(tickets_[cursor_]);
}

// Whether the next section of the same call follows at once. Ranks that share a device go on only
// with sections that have the ticket of the one that holds it.
bool DeviceRun::goes_on(const Turn& turn) const {
  const uint32_t next = cursor_ + 1;
  if (next >= granted_.load(std::memory_order_acquire)) return false;
  const Entry& now = laid_.entries[cursor_];
  const Entry& then = laid_.entries[next];
  if (then.kind != now.kind || then.node != now.node) return false;
  const Plan& plan = *laid_.plan;
  if (turn.stream.collectives_block() &&
      plan.slices[plan.nodes[now.node].slice].ranks_per_device > 1)
    return false;
  const bool gap = !turn.alone && tickets_[next] != tickets_[cursor_] + 1;
  return !gap && !turn.over_before(tickets_[next]);
}

uint64_t DeviceRun::ticket() const {
  if (abandoned_.load(std::memory_order_acquire) || cursor_ == laid_.entries.size()) return 0;
  return cursor_ < granted_.load(std::memory_order_acquire) ? tickets_[cursor_] : kNoTicket;
}

bool DeviceRun::meets_others() const {
  return cursor_ < laid_.entries.size() && laid_.entries[cursor_].meets_others;
}

// If all ranks of a device wait in a collective, the device's time counts once.
bool DeviceRun::counts_block() const {
  const Blocks kind = blocks();
  return kind == Blocks::kAll || (kind == Blocks::kOthers && laid_.member.rank == 0);
}

Blocks DeviceRun::blocks() const {
  if (cursor_ == laid_.entries.size()) return Blocks::kNothing;
  const Entry& entry = laid_.entries[cursor_];
  if (entry.kind == EntryKind::kGate)
    return diagnosis_ == nullptr ? Blocks::kNothing : diagnosis_->blocks();
  // An entry that has not begun may wait for one that comes behind it on this device.
  return begun_ ? frames_[entry.node].blocks : Blocks::kNothing;
}

// Whether the feeder still writes to the run's slots.
bool DeviceRun::sources_pending() const {
  return std::any_of(inputs_.sources.begin(), inputs_.sources.end(),
                     [](const EventPtr& event) { return event != nullptr && !event->ready(); });
}

// An entry's span begins where the one before it ended, so its waiting belongs to it. A node that
// is dispatched sequentially may be enqueued after that, so no arrow leads to it.
void DeviceRun::record_span(const Entry& entry, Turn& turn) {
  if (turn.stream.trace.row == nullptr) return;
  const int64_t end_ns = turn.stream.now_ns();
  const uint32_t node = entry.plan_node == kNone ? entry.node : entry.plan_node;
  const bool waits_for_host = is_sequential(*laid_.plan);
  turn.stream.trace.row->record({.name = "run",
                                 .begin_ns = entry_start_ns_,
                                 .end_ns = end_ns,
                                 .run = run_.value,
                                 .node = node,
                                 .step = waits_for_host ? 0 : turn.stream.trace.host,
                                 .mark = waits_for_host ? TraceMark::kSpan : TraceMark::kNodeRuns});
  entry_start_ns_ = end_ns;
}

void DeviceRun::record_begin(Turn& turn) {
  if (turn.stream.trace.row == nullptr) return;
  turn.stream.trace.row->record({.name = "begin",
                                 .begin_ns = entry_start_ns_,
                                 .end_ns = entry_start_ns_,
                                 .run = run_.value,
                                 .node = laid_.id.value,
                                 .mark = TraceMark::kRunBegins});
}

void DeviceRun::record_counters(Turn& turn) {
  if (turn.stream.trace.row == nullptr) return;
  turn.stream.trace.row->count("memory in use", laid_.device->memory().in_use());
  turn.stream.trace.row->count("runs queued",
                               turn.stream.trace.runs_queued.load(std::memory_order_relaxed));
}

void DeviceRun::record_order(const Entry& entry) {
  const uint32_t node = entry.plan_node == kNone ? entry.node : entry.plan_node;
  const bool receives = entry.kind == EntryKind::kReceive;
  laid_.order_log->record(
      {.device = laid_.device->name(),
       .plan = laid_.id,
       .rank = laid_.member.rank,
       .run = run_,
       .node = node,
       .sender = receives ? laid_.plan->nodes[node].peer : 0,
       .receives = receives,
       .ticket = tickets_[cursor_],
       .in_order = entry.meets_others && laid_.device->stream().collectives_block(),
       .states = plan_.shared_states,
       .region = entered_ ? laid_.region.get() : nullptr,
       .reads = arrays_read(entry),
       .fills = arrays_filled()});
}

std::vector<const void*> DeviceRun::arrays_read(const Entry& entry) const {
  std::vector<const void*> arrays;
  if (error_ != nullptr) return arrays;  // A failed run does not wait for them.
  for (uint32_t argument : entry.arguments) {
    if (inputs_.arguments[argument] != nullptr) arrays.push_back(inputs_.arguments[argument].get());
  }
  return arrays;
}

std::vector<const void*> DeviceRun::arrays_filled() const {
  std::vector<const void*> arrays;
  if (cursor_ + 1 < laid_.entries.size()) return arrays;
  for (const BufferPtr& output : inputs_.outputs) {
    if (output != nullptr) arrays.push_back(output.get());
  }
  return arrays;
}

Progress DeviceRun::advance_entry(const Entry& entry, Turn& turn) {
  switch (entry.kind) {
    case EntryKind::kCall: return advance_steps(entry, turn);
    case EntryKind::kCommit: return passed_ ? advance_steps(entry, turn) : Progress::kDone;
    case EntryKind::kSource: return advance_source(entry, turn);
    case EntryKind::kSend: return advance_send(entry, turn);
    case EntryKind::kReceive: return advance_receive(entry, turn);
    case EntryKind::kGate: return advance_gate(turn);
  }
  return Progress::kDone;
}

// Whether a run in another stream still fills the arguments.
bool DeviceRun::arguments_pending(const Entry& entry) const {
  return std::any_of(entry.arguments.begin(), entry.arguments.end(), [this](uint32_t argument) {
    const BufferPtr& buffer = inputs_.arguments[argument];
    return buffer != nullptr && buffer->pending;
  });
}

// Takes the error of an argument that was not filled.
void DeviceRun::look_at_arguments(const Entry& entry) {
  for (uint32_t argument : entry.arguments) {
    const BufferPtr& buffer = inputs_.arguments[argument];
    if (buffer != nullptr && buffer->error != nullptr)
      poison(buffer->error, buffer->error != peer_failed());
  }
}

Progress DeviceRun::advance_steps(const Entry& entry, Turn& turn) {
  CallFrame& frame = frames_[entry.node];
  if (!begun_) {
    begun_ = true;
    frame.blocks = Blocks::kNothing;
    frame.step = entry.begin;
    frame.end = entry.end;
    frame.begun = false;
    frame.peer_poisoned = false;
    frame.run = run_.value;
    frame.plan_node = entry.plan_node == kNone ? entry.node : entry.plan_node;
    look_at_arguments(entry);
  }
  frame.poisoned = error_ != nullptr;
  if (advance_function(entry, frame, turn) == Progress::kPending) return Progress::kPending;
  if (frame.overlapped_count > 0 && !goes_on(turn)) {
    const Progress joined = entry.function->join(frame, turn);
    if (frame.error != nullptr) look_at_failure(std::exchange(frame.error, nullptr));
    if (joined == Progress::kPending) return Progress::kPending;
  }
  if (frame.peer_poisoned) poison_by_peer();
  if (entry.guarded && error_ == nullptr)
    entry.function->check_committed(frame, turn.stream, not_finite_);
  if (entry.finite_value != kNone && error_ == nullptr) {
    const Type& type = laid_.plan->values[entry.finite_value].local_type;
    turn.stream.check_finite(type.dtype, values_[entry.finite_value], type.elements(), not_finite_);
  }
  return Progress::kDone;
}

// A library below a kernel may throw (no memory, a primitive that it can't build). On this thread
// that becomes the run's error: the step is skipped and the run is poisoned.
Progress DeviceRun::advance_function(const Entry& entry, CallFrame& frame, Turn& turn) {
  const auto fail = [&](ErrorKind kind, const std::string& what) {
    const PlanNode& node = laid_.plan->nodes[entry.node];
    poison(std::make_shared<const Error>(
               kind, cat("run: a kernel failed: ", what),
               Where{.program = laid_.plan->name, .node = node.name, .at = node.at}),
           true);
  };
  try {
    const Progress progress = entry.function->advance(frame, turn);
    if (frame.error != nullptr) look_at_failure(std::exchange(frame.error, nullptr));
    return progress;
  } catch (const Error& error) {  // A user's kernel threw it.
    fail(error.kind(), error.message());
  } catch (const std::exception& error) {
    fail(ErrorKind::kBug, error.what());
  } catch (...) {
    fail(ErrorKind::kBug, "it threw something that is no exception");
  }
  frame.poisoned = true;
  frame.begun = false;
  return entry.function->advance(frame, turn);
}

Progress DeviceRun::advance_gate(Turn& turn) {
  if (diagnosis_ != nullptr) {
    if (diagnosis_->advance(turn) == Progress::kPending) return Progress::kPending;
    poison(diagnosis_->error(), diagnosis_->is_origin());
    return Progress::kDone;
  }
  if (!begun_) {
    if (!landed(turn)) return Progress::kPending;
    begun_ = true;
    laid_.device->memory().host_access(HostAccess::kRead, not_finite_, sizeof(*not_finite_));
    links_.gate->begin_exchange(*not_finite_, error_ != nullptr);
  }
  if (links_.gate->advance() == Progress::kPending) return Progress::kPending;
  if (links_.gate->poisoned()) {
    poison_by_peer();
    return Progress::kDone;
  }
  if (links_.gate->most() == 0) {  // Finite on all devices.
    passed_ = true;
    return Progress::kDone;
  }
  diagnose();
  return Progress::kPending;
}

// The device is rung when the diagnosis's functions are compiled. The mail of this run's end comes
// behind this mail, so the plan still exists.
void DeviceRun::diagnose() {
  const auto unfused = std::make_shared<Diagnosis::Unfused>();
  diagnosis_ = std::make_unique<Diagnosis>(laid_, links_.gate, frames_, unfused);
  mailbox_.post([unfused, &share = laid_, &listener = listener_, alive = listener_.alive] {
    if (!*alive) return;
    unfused->job.done = [&done = unfused->done, &stream = share.device->stream(),
                         alive](const CompileJob&) {
      if (!*alive) return;
      done.store(true, std::memory_order_release);
      stream.ring();
    };
    listener.compile_unfused(share, {unfused, &unfused->job});
  });
}

void DeviceRun::finish(Turn& turn) {
  if (passed_) plan_.last_committed = run_;
  if (entered_) laid_.region->leave(run_);
  for (const Entry& entry : laid_.entries) {
    if (entry.kind == EntryKind::kSend && links_.channels[entry.channel].link != nullptr)
      links_.channels[entry.channel].link->join();
  }
  for (const DeviceOutput& output : laid_.outputs) {
    const BufferPtr& buffer = inputs_.outputs[output.output];
    if (buffer == nullptr) continue;
    buffer->pending = false;
    buffer->settling = turn.stream.discrete();
    buffer->error = error_;
    if (error_ != nullptr) continue;
    const int64_t bytes = laid_.plan->values[output.value].local_type.bytes();
    if (!output.bound) turn.stream.copy(buffer->data(), values_[output.value], bytes);
    if (output.small)
      turn.stream.copy(small_ + kSmallBytesMax * output.output, buffer->data(), bytes);
  }
}

// On a discrete device all that it read is settled before.
void DeviceRun::settled(Turn& turn, const std::shared_ptr<const Error>& failure) {
  look_at_failure(failure);
  if (turn.stream.discrete()) {
    look_at_arguments();
    for (const BufferPtr& buffer : inputs_.outputs) {
      if (buffer == nullptr) continue;
      buffer->settling = false;
      buffer->error = error_;
    }
  }
  release_inboxes();
}

void DeviceRun::retire(bool done) {
  if (!done) return;  // The device is destroyed, and the reactor's records with it.
  // The host may be destroyed before the mail is delivered, and this record with it.
  mailbox_.post([this, alive = listener_.alive] {
    if (*alive) listener_.device_done(*this);
  });
}

}  // namespace gangway
