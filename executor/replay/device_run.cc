#include "executor/replay/device_run.h"

#include <algorithm>
#include <cstring>

#include "protocol/messages.h"
#include "runtime/base/error.h"

namespace gangway {

DeviceRun::DeviceRun(const DevicePlan& plan, uint32_t slot, Mailbox& mailbox, Listener& listener)
    : plan_(plan), slot_(slot), mailbox_(mailbox), listener_(listener) {
  values_.assign(plan.plan->values.size(), nullptr);
  for (uint32_t v = 0; v < values_.size(); ++v) values_[v] = fixed_base(v);
  for (const Entry& entry : plan.entries) {
    if (entry.kind == EntryKind::kReceive &&
        plan.layout.values[entry.value].kind == ValuePlace::Kind::kInbox) {
      const TransferChannel& channel = plan.channels[entry.channel];
      values_[entry.value] = channel.link == nullptr ? channel.receiver.payload(slot)
                                                     : channel.memory + channel.stride * slot;
    }
  }
  told_ = plan.device->host_memory(
      static_cast<int64_t>(kSmallBytesMax * (1 + plan.plan->outputs.size())));
  not_finite_ = reinterpret_cast<uint32_t*>(told_.get());
  small_ = told_.get() + kSmallBytesMax;
  tickets_.resize(plan.entries.size());
  sections_ = std::make_unique<SliceProgress[]>(plan.told_slices.size());
  build_frames();
}

std::byte* DeviceRun::slot_data(uint32_t value) const {
  return plan_.slots->data() + plan_.layout.slot_bytes * slot_ + plan_.layout.values[value].offset;
}

std::byte* DeviceRun::staging_data(uint32_t value) const {
  if (plan_.staging == nullptr) return slot_data(value);
  return plan_.staging.get() + (slot_data(value) - plan_.slots->data());
}

std::byte* DeviceRun::fixed_base(uint32_t value) const {
  const ValuePlace& place = plan_.layout.values[value];
  switch (place.kind) {
    case ValuePlace::Kind::kState: return plan_.states[value]->data();
    case ValuePlace::Kind::kArena: return plan_.arena->data() + place.offset;
    case ValuePlace::Kind::kSlot: return slot_data(value);
    case ValuePlace::Kind::kAbsent:
    case ValuePlace::Kind::kInbox:
    case ValuePlace::Kind::kBound: break;
  }
  return nullptr;
}

void DeviceRun::build_frames() {
  frames_.resize(plan_.plan->nodes.size());
  for (const Entry& entry : plan_.entries) {
    if (entry.kind != EntryKind::kCall || !entry.first) continue;
    const PlanNode& node = plan_.plan->nodes[entry.node];
    CallFrame& frame = frames_[entry.node];
    for (const PlanInput& input : node.inputs) frame.bases.push_back(values_[input.value]);
    for (uint32_t value : node.results) frame.bases.push_back(values_[value]);
    frame.bases.push_back(plan_.arena->data() + plan_.layout.call_arena[entry.node]);
    frame.mesh_device = mesh_device_of(plan_.plan->slices[node.slice], plan_.member);
    frame.program = &plan_.plan->name;
    frame.collectives = entry.collectives;
  }
}

void DeviceRun::bind(Inputs inputs) {
  inputs_ = std::move(inputs);
  run_ = inputs_.run;
  active_ = true;
  std::fill(tickets_.begin(), tickets_.end(), 0);
  granted_.store(0, std::memory_order_relaxed);
  cursor_ = 0;
  progress_ = 0;
  started_ = begun_ = marked_ = passed_ = culprit_ = holds_ = false;
  by_section_.store(false, std::memory_order_relaxed);
  is_news_told_.store(false, std::memory_order_relaxed);
  for (size_t i = 0; i < plan_.told_slices.size(); ++i) {
    sections_[i].ended.store(0, std::memory_order_relaxed);
    sections_[i].busy_ns.store(0, std::memory_order_relaxed);
  }
  plan_.device->host_access(HostAccess::kWrite, not_finite_, sizeof(*not_finite_));
  *not_finite_ = 0;
  error_ = nullptr;
  diagnosis_ = nullptr;
  cancel_wanted_.store(false, std::memory_order_relaxed);
  if (inputs_.error != nullptr) poison(inputs_.error, true);
  const Plan& plan = *plan_.plan;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const uint32_t value = plan.inputs[i];
    if (plan_.layout.values[value].kind != ValuePlace::Kind::kBound) continue;
    if (inputs_.arguments[i] != nullptr) {
      values_[value] = inputs_.arguments[i]->data();
    } else if (inputs_.inline_bytes[i] != nullptr) {
      values_[value] = slot_data(value);
      const std::vector<std::byte>& bytes = *inputs_.inline_bytes[i];
      plan_.device->host_access(HostAccess::kWrite, staging_data(value),
                                static_cast<int64_t>(bytes.size()));
      std::memcpy(staging_data(value), bytes.data(), bytes.size());
    }
  }
  for (const DeviceOutput& output : plan_.outputs) {
    if (output.bound && inputs_.outputs[output.output] != nullptr) {
      values_[output.value] = inputs_.outputs[output.output]->data();
    }
  }
}

void DeviceRun::fill_frame(const Entry& entry) {
  for (const Patch& patch : entry.patches)
    frames_[entry.node].bases[patch.base] = values_[patch.value];
}

bool DeviceRun::grant(const GrantRange& range) {
  const std::vector<uint32_t>& entries =
      range.slice == kEverySlice ? plan_.entry_in_order : plan_.entry_at[range.slice];
  if (entries.empty()) return false;
  if (range.slice != kEverySlice) by_section_.store(true, std::memory_order_relaxed);
  for (uint32_t k = 0; k < range.count; ++k) {
    const uint32_t entry = entries[range.first + k];
    if (entry != kNone) tickets_[entry] = range.ticket.value + k;
  }
  const uint32_t before = granted_.load(std::memory_order_relaxed);
  uint32_t granted = before;
  while (granted < tickets_.size() && tickets_[granted] != 0) ++granted;
  granted_.store(granted, std::memory_order_release);
  return granted > before;
}

void DeviceRun::cancel(std::shared_ptr<const Error> error) {
  if (cancel_wanted_.load(std::memory_order_relaxed)) return;
  cancel_error_ = std::move(error);
  cancel_wanted_.store(true, std::memory_order_release);
  plan_.device->ring();
}

void DeviceRun::poison(std::shared_ptr<const Error> error, bool culprit) {
  if (error_ != nullptr) return;  // The first error wins.
  error_ = std::move(error);
  culprit_ = culprit;
}

void DeviceRun::poison_by_peer() { poison(peer_failed(), false); }

// Has no effect once this device has sent its word to the gate: the others commit because of it.
void DeviceRun::look_for_cancel(const Entry& entry) {
  if (passed_ || (begun_ && entry.kind == EntryKind::kGate)) return;
  if (!cancel_wanted_.load(std::memory_order_acquire)) return;
  poison(cancel_error_, true);
}

// In stream order: what the host wrote for this run becomes the device's.
void DeviceRun::copy_from_staging(uint32_t value, Turn& turn) {
  if (plan_.staging == nullptr) return;
  turn.device.copy(slot_data(value), staging_data(value),
                   plan_.plan->values[value].local_type.bytes());
}

void DeviceRun::copy_inline_inputs(Turn& turn) {
  if (plan_.staging == nullptr) return;
  for (size_t i = 0; i < inputs_.inline_bytes.size(); ++i) {
    const uint32_t value = plan_.plan->inputs[i];
    if (inputs_.inline_bytes[i] != nullptr && inputs_.arguments[i] == nullptr &&
        plan_.layout.values[value].kind == ValuePlace::Kind::kBound) {
      copy_from_staging(value, turn);
    }
  }
}

// Whether all that was started so far is done. What failed of it poisons the run.
bool DeviceRun::landed(Turn& turn) {
  if (!turn.device.discrete()) return true;
  if (!marked_) mark_ = turn.device.mark();
  marked_ = true;
  std::shared_ptr<const Error> failure;
  if (turn.device.reached(mark_, &failure) == Progress::kPending) return false;
  marked_ = false;
  look_at_failure(failure);
  return true;
}

void DeviceRun::look_at_failure(const std::shared_ptr<const Error>& failure) {
  if (failure == nullptr) return;
  if (!passed_) return poison(failure, failure != peer_failed());
  poison(std::make_shared<const Error>(ErrorKind::kLost,
                                       cat("run: its commit failed: ", failure->message()),
                                       failure->where(), "restore the states from a checkpoint"),
         true);
}

// The plan's runs follow one another on the device: the one before has ended.
void DeviceRun::begin(Turn& turn) {
  started_ = true;
  entry_start_ns_ = turn.device.trace_row == nullptr ? 0 : turn.device.now_ns();
  copy_inline_inputs(turn);
  const RunId after = inputs_.after;
  if (after == RunId() || plan_.gate == nullptr || plan_.last_committed == after) return;
  poison(std::make_shared<const Error>(
             ErrorKind::kCancelled,
             "run: nothing was committed, since the run before it did not commit",
             Where{.program = plan_.plan->name}, "handle the error of that run, then run again"),
         true);
}

Progress DeviceRun::advance(Turn& turn) {
  if (!started_) begin(turn);
  if (plan_.told_slices.empty()) return advance_entries(turn);
  start_clock(turn);
  const uint32_t first = cursor_;
  const Progress progress = advance_entries(turn);
  holds_ = progress == Progress::kPending && holds_device();
  stop_clock(turn, begun_ || cursor_ != first);
  return progress;
}

// Its time counts while it is advanced, and on while it keeps the device.
void DeviceRun::start_clock(const Turn& turn) {
  if (!holds_) clock_ns_ = turn.device.now_ns();
}

// The time since then was for the entry at the cursor, if it has begun, or for the one before.
void DeviceRun::stop_clock(const Turn& turn, bool was_busy) {
  const int64_t now_ns = turn.device.now_ns();
  const uint32_t last = begun_ || cursor_ == 0 ? cursor_ : cursor_ - 1;
  // What a poisoned run skips takes no time, which says nothing of what it takes.
  const uint32_t told = was_busy && error_ == nullptr ? plan_.told_slice_of[last] : kNone;
  if (told != kNone)
    sections_[told].busy_ns.fetch_add(now_ns - clock_ns_, std::memory_order_relaxed);
  clock_ns_ = now_ns;
  tell_progress();
}

void DeviceRun::tell_progress() {
  bool is_news = false;
  for (size_t i = 0; i < plan_.told_slices.size(); ++i) {
    const uint32_t ended = plan_.told_slices[i].ended[cursor_];
    if (ended == sections_[i].ended.load(std::memory_order_relaxed)) continue;
    sections_[i].ended.store(ended, std::memory_order_release);
    is_news = true;
  }
  if (!is_news || !by_section_.load(std::memory_order_relaxed)) return;
  if (is_news_told_.exchange(true, std::memory_order_acq_rel)) return;
  mailbox_.post([this, alive = listener_.alive] {
    if (*alive) listener_.sections_ended(*this);
  });
}

Progress DeviceRun::advance_entries(Turn& turn) {
  while (cursor_ < plan_.entries.size()) {
    const Entry& entry = plan_.entries[cursor_];
    // A commit waits for no other device. Were it ended halfway, it would leave a state that no
    // step has computed.
    const bool committing = passed_ && entry.kind == EntryKind::kCommit;
    const bool abandoned = abandoned_.load(std::memory_order_acquire);
    if (!committing && abandoned) {
      if (sources_pending()) return Progress::kPending;
      look_for_cancel(entry);  // Which may say why.
      poison(std::make_shared<const Error>(ErrorKind::kCancelled, "run: its plan was given up"),
             true);
      break;
    }
    // No more tickets come for a run that was given up: its commit ends without.
    if (!abandoned && cursor_ >= granted_.load(std::memory_order_acquire))
      return Progress::kPending;
    look_for_cancel(entry);
    if (!begun_ && error_ == nullptr && arguments_pending(entry)) return Progress::kPending;
    progress_ = 2 * cursor_ + 1;
    if (advance_entry(entry, turn) == Progress::kPending) return Progress::kPending;
    begun_ = false;
    if (plan_.order_log != nullptr && tickets_[cursor_] != 0) record_order(entry);
    progress_ = 2 * ++cursor_;
    record_span(entry, turn);
    const bool each = by_section_.load(std::memory_order_relaxed) || plan_.told_slices.size() > 1;
    if (each && !plan_.told_slices.empty()) {
      holds_ = false;
      stop_clock(turn, true);
    }
    if (over(turn)) return Progress::kMore;
  }
  progress_ = 2 * cursor_ + 1;
  finish(turn);
  return Progress::kDone;
}

// Whether others may come before the entry at the cursor.
bool DeviceRun::over(const Turn& turn) const {
  if (cursor_ == plan_.entries.size()) return false;
  // Tickets that come now may be behind another's: the queue looks.
  if (cursor_ >= granted_.load(std::memory_order_acquire)) return true;
  return tickets_[cursor_] != tickets_[cursor_ - 1] + 1 || turn.over_before(tickets_[cursor_]);
}

uint64_t DeviceRun::ticket() const {
  if (abandoned_.load(std::memory_order_acquire) || cursor_ == plan_.entries.size()) return 0;
  return cursor_ < granted_.load(std::memory_order_acquire) ? tickets_[cursor_] : kNoTicket;
}

bool DeviceRun::meets_others() const {
  return cursor_ < plan_.entries.size() && plan_.entries[cursor_].meets_others;
}

bool DeviceRun::holds_device() const {
  if (cursor_ == plan_.entries.size()) return false;
  const Entry& entry = plan_.entries[cursor_];
  if (entry.kind == EntryKind::kGate) return diagnosis_ != nullptr && diagnosis_->holds_device();
  return frames_[entry.node].holds_device;
}

// The feeder still writes into the run's slots.
bool DeviceRun::sources_pending() const {
  return std::any_of(inputs_.sources.begin(), inputs_.sources.end(),
                     [](const EventPtr& event) { return event != nullptr && !event->ready(); });
}

// An entry's span begins where the one before it ended: its waiting is its own.
void DeviceRun::record_span(const Entry& entry, Turn& turn) {
  if (turn.device.trace_row == nullptr) return;
  const int64_t end_ns = turn.device.now_ns();
  const uint32_t node = entry.plan_node == kNone ? entry.node : entry.plan_node;
  turn.device.trace_row->record({"run", entry_start_ns_, end_ns, run_.value, node});
  entry_start_ns_ = end_ns;
}

void DeviceRun::record_order(const Entry& entry) {
  const uint32_t node = entry.plan_node == kNone ? entry.node : entry.plan_node;
  const bool receives = entry.kind == EntryKind::kReceive;
  plan_.order_log->record({.device = plan_.device->name(),
                           .plan = plan_.id,
                           .run = run_,
                           .node = node,
                           .sender = receives ? plan_.plan->nodes[node].peer : 0,
                           .receives = receives,
                           .ticket = tickets_[cursor_],
                           .in_order = entry.meets_others && plan_.device->collectives_hold(),
                           .states = plan_.shared_states});
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

// A run in another lane still fills them.
bool DeviceRun::arguments_pending(const Entry& entry) const {
  return std::any_of(entry.arguments.begin(), entry.arguments.end(), [this](uint32_t argument) {
    const BufferPtr& buffer = inputs_.arguments[argument];
    return buffer != nullptr && buffer->pending;
  });
}

Progress DeviceRun::advance_steps(const Entry& entry, Turn& turn) {
  CallFrame& frame = frames_[entry.node];
  if (!begun_) {
    begun_ = true;
    frame.holds_device = false;
    frame.step = entry.begin;
    frame.end = entry.end;
    frame.begun = false;
    frame.peer_poisoned = false;
    for (uint32_t argument : entry.arguments) {
      const BufferPtr& buffer = inputs_.arguments[argument];
      if (buffer != nullptr && buffer->error != nullptr) poison(buffer->error, true);
    }
  }
  frame.poisoned = error_ != nullptr;
  if (advance_function(entry, frame, turn) == Progress::kPending) return Progress::kPending;
  if (frame.peer_poisoned) poison_by_peer();
  if (entry.finite_value != kNone && error_ == nullptr) {
    const Type& type = plan_.plan->values[entry.finite_value].local_type;
    turn.device.check_finite(type.dtype, values_[entry.finite_value], type.elements(), not_finite_);
  }
  return Progress::kDone;
}

// A library below a kernel may throw (no memory, a primitive that it can't build). On this thread
// that becomes the run's error: the step is skipped and the run is poisoned.
Progress DeviceRun::advance_function(const Entry& entry, CallFrame& frame, Turn& turn) {
  const auto fail = [&](ErrorKind kind, const std::string& what) {
    const PlanNode& node = plan_.plan->nodes[entry.node];
    poison(std::make_shared<const Error>(
               kind, cat("run: a kernel failed: ", what),
               Where{.program = plan_.plan->name, .node = node.name, .at = node.at}),
           true);
  };
  try {
    const Progress progress = entry.function->advance(frame, turn);
    if (frame.error != nullptr) look_at_failure(std::exchange(frame.error, nullptr));
    return progress;
  } catch (const Error& error) {  // A user's kernel said so.
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

Progress DeviceRun::advance_source(const Entry& entry, Turn& turn) {
  const EventPtr& event = inputs_.sources[entry.source];
  if (event == nullptr) return Progress::kDone;
  if (!event->ready()) return Progress::kPending;
  if (event->error() != nullptr) {
    poison(event->shared_error(), true);
  } else {
    copy_from_staging(entry.value, turn);
  }
  return Progress::kDone;
}

Progress DeviceRun::advance_send(const Entry& entry, Turn& turn) {
  const TransferChannel& channel = plan_.channels[entry.channel];
  if (!begun_) {
    if (!channel.sender.may_send(inputs_.number)) return Progress::kPending;
    begun_ = true;
    if (error_ == nullptr) send(entry, turn);
  }
  if (sent_at_ns_ != 0 && turn.device.now_ns() < sent_at_ns_) {
    turn.wake_by(sent_at_ns_);
    return Progress::kPending;
  }
  if (channel.link == nullptr && !landed(turn)) return Progress::kPending;
  channel.sender.send(inputs_.number, error_ != nullptr);
  return Progress::kDone;
}

void DeviceRun::send(const Entry& entry, Turn& turn) {
  const TransferChannel& channel = plan_.channels[entry.channel];
  const PlanValue& value = plan_.plan->values[entry.value];
  const int64_t bytes = value.local_type.bytes();
  turn.device.moved.add(channel.link_class, bytes);
  if (const int64_t ns = turn.device.send_ns(channel.link_class, bytes); ns > 0)
    sent_at_ns_ = turn.device.now_ns() + ns;
  if (channel.link == nullptr)
    return turn.device.copy(channel.sender.payload(inputs_.number), values_[entry.value], bytes);
  const uint32_t slot = channel.slots.slot(inputs_.number);
  const auto failure =
      channel.link->send(slot, channel.memory + channel.stride * slot, values_[entry.value], bytes);
  if (value.storage == PlanStorage::kState) channel.link->join();  // A commit may overwrite it.
  if (failure == nullptr) return;
  const PlanNode& node = plan_.plan->nodes[entry.node];
  auto error = std::make_shared<Error>(*failure);
  error->add_where({.program = plan_.plan->name, .node = node.name, .at = node.at});
  look_at_failure(std::move(error));
}

Progress DeviceRun::advance_receive(const Entry& entry, Turn& turn) {
  const TransferChannel& channel = plan_.channels[entry.channel];
  const TransferReceiver& receiver = channel.receiver;
  const uint64_t run = inputs_.number;
  if (!turn.comes(receiver.arrival(run), TransferSlots::stamped(run, false)))
    return Progress::kPending;
  if (receiver.poisoned(run)) poison_by_peer();
  if (error_ == nullptr && channel.link != nullptr) channel.link->receive(channel.slots.slot(run));
  if (error_ == nullptr && plan_.layout.values[entry.value].kind != ValuePlace::Kind::kInbox) {
    turn.device.copy(values_[entry.value], receiver.payload(run),
                     plan_.plan->values[entry.value].local_type.bytes());
  }
  return Progress::kDone;
}

Progress DeviceRun::advance_gate(Turn& turn) {
  if (diagnosis_ != nullptr) {
    if (diagnosis_->advance(turn) == Progress::kPending) return Progress::kPending;
    poison(diagnosis_->error(), diagnosis_->culprit());
    return Progress::kDone;
  }
  if (!begun_) {
    if (!landed(turn)) return Progress::kPending;
    begun_ = true;
    turn.device.host_access(HostAccess::kRead, not_finite_, sizeof(*not_finite_));
    plan_.gate->begin_exchange(*not_finite_, error_ != nullptr);
  }
  if (plan_.gate->advance() == Progress::kPending) return Progress::kPending;
  if (plan_.gate->poisoned()) {
    poison_by_peer();
    return Progress::kDone;
  }
  if (plan_.gate->most() == 0) {  // Finite on all devices.
    passed_ = true;
    return Progress::kDone;
  }
  diagnose();
  return Progress::kPending;
}

// The device is rung when what the diagnosis runs is compiled. This run's end comes behind this
// mail, so the plan is still there.
void DeviceRun::diagnose() {
  const auto unfused = std::make_shared<Diagnosis::Unfused>();
  diagnosis_ = std::make_unique<Diagnosis>(plan_, frames_, unfused);
  mailbox_.post([unfused, &plan = plan_, &listener = listener_, alive = listener_.alive] {
    if (!*alive) return;
    unfused->job.done = [&done = unfused->done, device = plan.device, alive](const CompileJob&) {
      if (!*alive) return;
      done.store(true, std::memory_order_release);
      device->ring();
    };
    listener.compile_unfused(plan, {unfused, &unfused->job});
  });
}

void DeviceRun::finish(Turn& turn) {
  if (passed_) plan_.last_committed = run_;
  for (const Entry& entry : plan_.entries) {
    if (entry.kind == EntryKind::kSend && plan_.channels[entry.channel].link != nullptr)
      plan_.channels[entry.channel].link->join();
  }
  for (const DeviceOutput& output : plan_.outputs) {
    const BufferPtr& buffer = inputs_.outputs[output.output];
    if (buffer == nullptr) continue;
    buffer->pending = false;
    buffer->error = error_;
    if (error_ != nullptr) continue;
    const int64_t bytes = plan_.plan->values[output.value].local_type.bytes();
    if (!output.bound) turn.device.copy(buffer->data(), values_[output.value], bytes);
    if (output.small)
      turn.device.copy(small_ + kSmallBytesMax * output.output, buffer->data(), bytes);
  }
}

void DeviceRun::settled(Turn&, const std::shared_ptr<const Error>& failure) {
  look_at_failure(failure);
  for (const BufferPtr& buffer : inputs_.outputs) {
    if (failure != nullptr && buffer != nullptr) buffer->error = error_;
  }
  release_inboxes();
}

void DeviceRun::release_inboxes() {
  const LinkEnd* last = nullptr;  // Most of a run's values come from one device: it is rung once.
  for (const Entry& entry : plan_.entries) {
    if (entry.kind != EntryKind::kReceive) continue;
    const TransferReceiver& receiver = plan_.channels[entry.channel].receiver;
    receiver.release(inputs_.number);
    if (last != nullptr && !last->same_device(receiver.sender())) last->ring();
    last = &receiver.sender();
  }
  if (last != nullptr) last->ring();
}

void DeviceRun::retire(bool done) {
  if (!done) return;  // The device dies, and the reactor's records with it.
  // The host may go before the mail is delivered, and this record with it.
  mailbox_.post([this, alive = listener_.alive] {
    if (*alive) listener_.device_done(*this);
  });
}

std::span<const std::byte> DeviceRun::small_output(uint32_t output) const {
  const uint32_t value = plan_.plan->outputs[output];
  const int64_t bytes = plan_.plan->values[value].local_type.bytes();
  const std::byte* data = small_ + kSmallBytesMax * output;
  plan_.device->host_access(HostAccess::kRead, data, bytes);
  return {data, static_cast<size_t>(bytes)};
}

void DeviceRun::release() {
  inputs_ = {};
  active_ = false;
}

}  // namespace gangway
