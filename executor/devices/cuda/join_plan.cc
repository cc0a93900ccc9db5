#include "executor/devices/cuda/join_plan.h"

#include <algorithm>

namespace gangway::cuda {
namespace {

bool overlap(const Touch& a, const Touch& b) {
  return a.at.kind == b.at.kind && a.at.index == b.at.index &&
         a.at.offset < b.at.offset + b.bytes && b.at.offset < a.at.offset + a.bytes;
}

bool conflict(const std::vector<Touch>& all, const std::vector<Touch>& others) {
  return std::any_of(all.begin(), all.end(), [&](const Touch& a) {
    return std::any_of(others.begin(), others.end(),
                       [&](const Touch& b) { return (a.writes || b.writes) && overlap(a, b); });
  });
}

}  // namespace

std::vector<Touch> touched(const LocalFunction& local, const MemoryPlan& memory,
                           const std::vector<int64_t>& scratch_bytes, NodeId id) {
  const Function& function = *local.function;
  const Node& node = function.nodes[id];
  std::vector<Touch> all;
  // One that shares its operand's bytes moves nothing.
  if ((node.op == Op::reshape || node.op == Op::barrier) &&
      memory.slots[node.first_result] == memory.slots[node.inputs[0]])
    return all;
  for (ValueId input : node.inputs)
    all.push_back({memory.slots[input], function.types[input].bytes(), false});
  for (uint32_t r = 0; r < node.results; ++r) {
    const ValueId result = node.first_result + r;
    all.push_back({memory.slots[result], function.types[result].bytes(), true});
  }
  if (memory.scratch_offset[id] >= 0) {
    all.push_back(
        {{MemorySlot::Kind::kArena, 0, memory.scratch_offset[id]}, scratch_bytes[id], true});
  }
  return all;
}

std::vector<Join> plan_joins(const LocalFunction& local, const MemoryPlan& memory,
                             const std::vector<int64_t>& scratch_bytes) {
  const Function& function = *local.function;
  std::vector<Join> joins(function.nodes.size() + 1);
  std::vector<std::vector<Touch>> beside;  // Of the collectives that are under way, oldest first.
  const auto join = [&](NodeId before, size_t oldest) {
    if (oldest == 0) return;
    beside.erase(beside.begin(), beside.begin() + static_cast<std::ptrdiff_t>(oldest));
    joins[before] = {true, static_cast<uint32_t>(beside.size())};
  };
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    if (id == local.commit_begin) join(id, beside.size());
    std::vector<Touch> now = touched(local, memory, scratch_bytes, id);
    // One goes behind the other on their stream, and behind what compute was told before.
    if (row(function.nodes[id].op).meets) {
      beside.push_back(std::move(now));
      continue;
    }
    const auto newest = std::find_if(beside.rbegin(), beside.rend(),
                                     [&](const auto& other) { return conflict(now, other); });
    join(id, static_cast<size_t>(beside.rend() - newest));
  }
  join(static_cast<NodeId>(function.nodes.size()), beside.size());
  return joins;
}

}  // namespace gangway::cuda
