// Data that enters a run, and data that it sends to other devices: sources, sends and receives.
#include <utility>

#include "executor/replay/device_run.h"
#include "runtime/base/error.h"

namespace gangway {

// Copies what the host wrote for this run to the device, in stream order.
void DeviceRun::copy_from_staging(uint32_t value, Turn& turn) {
  if (memory_.staging == nullptr) return;
  turn.stream.copy(slot_data(value), staging_data(value),
                   laid_.plan->values[value].local_type.bytes());
}

void DeviceRun::copy_inline_inputs(Turn& turn) {
  if (memory_.staging == nullptr) return;
  for (size_t i = 0; i < inputs_.inline_bytes.size(); ++i) {
    const uint32_t value = laid_.plan->inputs[i];
    if (inputs_.inline_bytes[i] != nullptr && inputs_.arguments[i] == nullptr &&
        laid_.layout.values[value].kind == ValuePlace::Kind::kBound) {
      copy_from_staging(value, turn);
    }
  }
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
  const TransferChannel& channel = links_.channels[entry.channel];
  if (!begun_) {
    if (!channel.sender.may_send(inputs_.number)) return Progress::kPending;
    begun_ = true;
    look_at_arguments(entry);
    if (error_ == nullptr) send(entry, turn);
  }
  if (sent_at_ns_ != 0 && turn.stream.now_ns() < sent_at_ns_) {
    turn.wake_by(sent_at_ns_);
    return Progress::kPending;
  }
  if (channel.link == nullptr && !landed(turn)) return Progress::kPending;
  channel.sender.send(inputs_.number, error_ != nullptr);
  return Progress::kDone;
}

void DeviceRun::send(const Entry& entry, Turn& turn) {
  const TransferChannel& channel = links_.channels[entry.channel];
  const PlanValue& value = laid_.plan->values[entry.value];
  const int64_t bytes = value.local_type.bytes();
  turn.stream.moved.add(channel.link_class, bytes);
  if (const int64_t ns = turn.stream.send_ns(channel.link_class, bytes); ns > 0)
    sent_at_ns_ = turn.stream.now_ns() + ns;
  if (channel.link == nullptr)
    return turn.stream.copy(channel.sender.payload(inputs_.number), values_[entry.value], bytes);
  const uint32_t slot = channel.slots.slot(inputs_.number);
  const auto failure = channel.link->send(slot, memory_.linked_inboxes[entry.channel].slot(slot),
                                          values_[entry.value], bytes);
  if (value.storage == PlanStorage::kState) channel.link->join();  // A commit may overwrite it.
  if (failure == nullptr) return;
  const PlanNode& node = laid_.plan->nodes[entry.node];
  auto error = std::make_shared<Error>(*failure);
  error->add_where({.program = laid_.plan->name, .node = node.name, .at = node.at});
  look_at_failure(std::move(error));
}

Progress DeviceRun::advance_receive(const Entry& entry, Turn& turn) {
  const TransferChannel& channel = links_.channels[entry.channel];
  const TransferReceiver& receiver = channel.receiver;
  const uint64_t run = inputs_.number;
  if (!turn.comes(receiver.arrival(run), TransferSlots::stamped(run, false)))
    return Progress::kPending;
  if (receiver.poisoned(run)) poison_by_peer();
  if (error_ == nullptr && channel.link != nullptr) channel.link->receive(channel.slots.slot(run));
  if (error_ == nullptr && laid_.layout.values[entry.value].kind != ValuePlace::Kind::kInbox) {
    turn.stream.copy(values_[entry.value], receiver.payload(run),
                     laid_.plan->values[entry.value].local_type.bytes());
  }
  return Progress::kDone;
}

void DeviceRun::release_inboxes() {
  const LinkEnd* last = nullptr;  // Most of a run's values come from one device: it is rung once.
  for (const Entry& entry : laid_.entries) {
    if (entry.kind != EntryKind::kReceive) continue;
    const TransferReceiver& receiver = links_.channels[entry.channel].receiver;
    receiver.release(inputs_.number);
    if (last != nullptr && !last->same_device(receiver.sender())) last->ring();
    last = &receiver.sender();
  }
  if (last != nullptr) last->ring();
}

}  // namespace gangway
