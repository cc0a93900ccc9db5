#include "executor/replay/plan_layout.h"

#include <algorithm>

#include "ir/transforms/memory/pack_intervals.h"
#include "protocol/messages.h"

namespace gangway {
namespace {

class LayoutMaker {
 public:
  LayoutMaker(const Plan& plan, const Member& member, const CompiledFunctions& functions,
              bool discrete)
      : plan_(plan), member_(member), functions_(functions), discrete_(discrete) {
    layout_.values.resize(plan.values.size());
    layout_.call_arena.assign(plan.nodes.size(), -1);
    first_.assign(plan.values.size(), kNone);
    last_.assign(plan.values.size(), 0);
  }

  PlanLayout run(int64_t arena_bytes_min) {
    find_lives();
    for (uint32_t v = 0; v < plan_.values.size(); ++v) place_value(v);
    for (uint32_t n = 0; n < plan_.nodes.size(); ++n) place_call(n);
    for (uint32_t v : plan_.outputs) {
      if (layout_.values[v].kind == ValuePlace::Kind::kAbsent) continue;
      layout_.bound_bytes += block_bytes(plan_.values[v].local_type.bytes());
    }
    layout_.arena_bytes = std::max(block_bytes(arena_bytes_min), pack_intervals(intervals_));
    for (size_t i = 0; i < intervals_.size(); ++i) *offsets_[i] = intervals_[i].offset;
    return std::move(layout_);
  }

 private:
  // The last node at which a call still needs its operands.
  uint32_t end_of(uint32_t node) const {
    uint32_t end = node;
    for (uint32_t n = node + 1; n < plan_.nodes.size(); ++n) {
      if (plan_.nodes[n].kind == PlanNodeKind::kCommit && plan_.nodes[n].call == node) end = n;
    }
    return end;
  }

  void find_lives() {
    const auto end = static_cast<uint32_t>(plan_.nodes.size());
    for (uint32_t n = 0; n < end; ++n) {
      const PlanNode& node = plan_.nodes[n];
      if (!takes_part(plan_, node, member_)) continue;
      const uint32_t until = node.kind == PlanNodeKind::kCall ? end_of(n) : n;
      for (const PlanInput& input : node.inputs)
        last_[input.value] = std::max(last_[input.value], until);
      for (uint32_t value : node.results) {
        first_[value] = std::min(first_[value], n);
        last_[value] = std::max(last_[value], until);
        if (node.kind == PlanNodeKind::kSource) sourced_.push_back(value);
      }
      if (node.kind == PlanNodeKind::kSend || node.kind == PlanNodeKind::kReceive)
        find_transfer(node);
    }
    // Outputs are copied, or were bound, when the run ends.
    for (uint32_t value : plan_.outputs) last_[value] = end;
  }

  void find_transfer(const PlanNode& node) {
    const uint32_t device = mesh_device_of(plan_.slices[node.slice], member_);
    const bool linked = discrete_ && peer_of(plan_, node, device).host == member_.host;
    if (node.kind == PlanNodeKind::kReceive) {
      received_.push_back(node.results[0]);
      if (linked) linked_.push_back(node.results[0]);
    } else if (linked) {
      last_[node.inputs[0].value] = static_cast<uint32_t>(plan_.nodes.size());
    }
  }

  static bool contains(const std::vector<uint32_t>& values, uint32_t value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  }

  void place_value(uint32_t v) {
    const PlanValue& value = plan_.values[v];
    ValuePlace& place = layout_.values[v];
    if (mesh_device_of(plan_.slices[value.slice], member_) == kNone) return;
    const int64_t bytes = value.local_type.bytes();
    switch (value.storage) {
      case PlanStorage::kState: place.kind = ValuePlace::Kind::kState; return;
      case PlanStorage::kInput:
        place.kind = ValuePlace::Kind::kBound;
        if (bytes > static_cast<int64_t>(kSmallBytesMax)) layout_.bound_bytes += block_bytes(bytes);
        if (value.type.bytes() <= static_cast<int64_t>(kInlineBytesMax)) {
          place.offset = layout_.slot_bytes;  // Offset of the value in the message.
          layout_.slot_bytes += block_bytes(bytes);
        }
        return;
      case PlanStorage::kTemporary:
      case PlanStorage::kOutput: break;
    }
    if (contains(received_, v) && (!discrete_ || contains(linked_, v))) {
      place = {ValuePlace::Kind::kInbox, layout_.inbox_bytes};
      layout_.inbox_bytes += block_bytes(bytes);
    } else if (contains(sourced_, v)) {
      place = {ValuePlace::Kind::kSlot, layout_.slot_bytes};
      layout_.slot_bytes += block_bytes(bytes);
    } else if (contains(plan_.outputs, v) && !contains(received_, v)) {
      place.kind = ValuePlace::Kind::kBound;
    } else if (first_[v] != kNone) {
      place.kind = ValuePlace::Kind::kArena;
      add_interval(bytes, first_[v], std::max(first_[v], last_[v]), &place.offset);
    }
  }

  void place_call(uint32_t n) {
    const PlanNode& node = plan_.nodes[n];
    if (node.kind != PlanNodeKind::kCall || !takes_part(plan_, node, member_)) return;
    layout_.call_arena[n] = 0;
    const int64_t bytes = functions_[node.function]->arena_bytes();
    if (bytes == 0) return;
    add_interval(bytes, n, end_of(n), &layout_.call_arena[n]);
  }

  void add_interval(int64_t bytes, uint32_t first, uint32_t last, int64_t* offset) {
    intervals_.push_back({block_bytes(bytes), first, last});
    offsets_.push_back(offset);
  }

  const Plan& plan_;
  const Member member_;
  const CompiledFunctions& functions_;
  const bool discrete_;
  PlanLayout layout_;
  std::vector<uint32_t> first_, last_;
  std::vector<uint32_t> sourced_, received_;
  std::vector<uint32_t> linked_;  // Received values that come over a link.
  std::vector<LiveInterval> intervals_;
  std::vector<int64_t*> offsets_;  // Where the offset of each interval is written.
};

}  // namespace

uint32_t mesh_device_of(const PlanSlice& slice, const Member& member) {
  if (member.rank >= slice.ranks_per_device) return kNone;
  uint32_t device = 0;
  for (const PlanRange& range : slice.ranges) {
    if (range.host == member.host && member.device >= range.first &&
        member.device < range.first + range.count) {
      return (device + member.device - range.first) * slice.ranks_per_device + member.rank;
    }
    device += range.count;
  }
  return kNone;
}

Member peer_of(const Plan& plan, const PlanNode& node, uint32_t device) {
  return SliceMembers(plan.slices[plan.nodes[node.peer].slice]).at(device);
}

bool takes_part(const Plan& plan, const PlanNode& node, const Member& member) {
  return node.kind == PlanNodeKind::kGate ||
         mesh_device_of(plan.slices[node.slice], member) != kNone;
}

PlanLayout lay_out(const Plan& plan, const Member& member, const CompiledFunctions& functions,
                   int64_t arena_bytes_min, bool discrete) {
  return LayoutMaker(plan, member, functions, discrete).run(arena_bytes_min);
}

}  // namespace gangway
