#include "executor/replay/device_run.h"

#include <algorithm>
#include <cstring>

#include "protocol/messages.h"
#include "runtime/base/error.h"

namespace gangway {

DeviceRun::DeviceRun(const DevicePlan& plan, uint32_t slot, Mailbox& mailbox, Listener& listener)
    : plan_(plan),
      laid_(plan.laid),
      links_(plan.links),
      memory_(*plan.memory),
      slot_(slot),
      mailbox_(mailbox),
      listener_(listener),
      clock_(plan.laid) {
  values_.assign(laid_.plan->values.size(), nullptr);
  for (uint32_t v = 0; v < values_.size(); ++v) values_[v] = fixed_base(v);
  for (const Entry& entry : laid_.entries) {
    if (entry.kind == EntryKind::kReceive &&
        laid_.layout.values[entry.value].kind == ValuePlace::Kind::kInbox) {
      const TransferChannel& channel = links_.channels[entry.channel];
      values_[entry.value] = channel.link == nullptr
                                 ? channel.receiver.payload(slot)
                                 : memory_.linked_inboxes[entry.channel].slot(slot);
    }
  }
  small_values_ = laid_.device->memory().host_memory(
      static_cast<int64_t>(kSmallBytesMax * (1 + laid_.plan->outputs.size())));
  not_finite_ = reinterpret_cast<uint32_t*>(small_values_.get());
  small_ = small_values_.get() + kSmallBytesMax;
  tickets_.resize(laid_.entries.size());
  build_frames();
}

std::byte* DeviceRun::slot_data(uint32_t value) const {
  return memory_.slots->data() + laid_.layout.slot_bytes * slot_ +
         laid_.layout.values[value].offset;
}

std::byte* DeviceRun::staging_data(uint32_t value) const {
  if (memory_.staging == nullptr) return slot_data(value);
  return memory_.staging.get() + (slot_data(value) - memory_.slots->data());
}

std::byte* DeviceRun::fixed_base(uint32_t value) const {
  const ValuePlace& place = laid_.layout.values[value];
  switch (place.kind) {
    case ValuePlace::Kind::kState: return plan_.states[value]->data();
    case ValuePlace::Kind::kArena: return memory_.arena_data() + place.offset;
    case ValuePlace::Kind::kSlot: return slot_data(value);
    case ValuePlace::Kind::kAbsent:
    case ValuePlace::Kind::kInbox:
    case ValuePlace::Kind::kBound: break;
  }
  return nullptr;
}

void DeviceRun::build_frames() {
  frames_.resize(laid_.plan->nodes.size());
  for (const Entry& entry : laid_.entries) {
    if (entry.kind != EntryKind::kCall || !entry.first) continue;
    const PlanNode& node = laid_.plan->nodes[entry.node];
    CallFrame& frame = frames_[entry.node];
    for (const PlanInput& input : node.inputs) frame.bases.push_back(values_[input.value]);
    for (uint32_t value : node.results) frame.bases.push_back(values_[value]);
    frame.bases.push_back(memory_.arena_data() + laid_.layout.call_arena[entry.node]);
    frame.mesh_device = mesh_device_of(laid_.plan->slices[node.slice], laid_.member);
    frame.program = &laid_.plan->name;
    if (const auto found = links_.of_calls.find(entry.node); found != links_.of_calls.end())
      frame.collectives = found->second;
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
  started_ = begun_ = marked_ = passed_ = is_origin_ = entered_ = false;
  clock_.reset();
  laid_.device->memory().host_access(HostAccess::kWrite, not_finite_, sizeof(*not_finite_));
  *not_finite_ = 0;
  error_ = nullptr;
  diagnosis_ = nullptr;
  cancel_wanted_.store(false, std::memory_order_relaxed);
  if (inputs_.error != nullptr) poison(inputs_.error, true);
  const Plan& plan = *laid_.plan;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const uint32_t value = plan.inputs[i];
    if (laid_.layout.values[value].kind != ValuePlace::Kind::kBound) continue;
    if (inputs_.arguments[i] != nullptr) {
      values_[value] = inputs_.arguments[i]->data();
    } else if (inputs_.inline_bytes[i] != nullptr) {
      values_[value] = slot_data(value);
      write_inline(i);
    }
  }
  for (const DeviceOutput& output : laid_.outputs) {
    if (output.bound && inputs_.outputs[output.output] != nullptr) {
      values_[output.value] = inputs_.outputs[output.output]->data();
    }
  }
}

// Called once in a run: arguments do not change while entries read them.
void DeviceRun::write_inline(size_t input) {
  const uint32_t value = laid_.plan->inputs[input];
  const std::vector<std::byte>& bytes = *inputs_.inline_bytes[input];
  laid_.device->memory().host_access(HostAccess::kWrite, staging_data(value),
                                     static_cast<int64_t>(bytes.size()));
  std::memcpy(staging_data(value), bytes.data(), bytes.size());
}

void DeviceRun::fill_frame(const Entry& entry) {
  for (const Patch& patch : entry.patches)
    frames_[entry.node].bases[patch.base] = values_[patch.value];
}

bool DeviceRun::grant(const GrantRange& range) {
  const std::vector<uint32_t>& entries =
      range.slice == kEverySlice ? laid_.entry_in_order : laid_.entry_at[range.slice];
  if (entries.empty()) return false;
  if (range.slice != kEverySlice) clock_.report_each();
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
  laid_.device->stream().ring();
}

void DeviceRun::poison(std::shared_ptr<const Error> error, bool is_origin) {
  if (error_ != nullptr) return;  // The first error wins.
  error_ = std::move(error);
  is_origin_ = is_origin;
}

void DeviceRun::poison_by_peer() { poison(peer_failed(), false); }

std::span<const std::byte> DeviceRun::small_output(uint32_t output) const {
  const uint32_t value = laid_.plan->outputs[output];
  const int64_t bytes = laid_.plan->values[value].local_type.bytes();
  const std::byte* data = small_ + kSmallBytesMax * output;
  laid_.device->memory().host_access(HostAccess::kRead, data, bytes);
  return {data, static_cast<size_t>(bytes)};
}

void DeviceRun::release() {
  inputs_ = {};
  active_ = false;
}

}  // namespace gangway
