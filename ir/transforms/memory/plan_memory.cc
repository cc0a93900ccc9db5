#include "ir/transforms/memory/plan_memory.h"

#include <algorithm>

#include "ir/transforms/memory/pack_intervals.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

int64_t aligned(int64_t bytes) { return align_up(bytes, kArenaAlignment); }

class Planner {
 public:
  Planner(const LocalFunction& local, std::optional<Repeated> repeated,
          const std::vector<Together>& together)
      : local_(local), function_(*local.function), repeated_(repeated), together_(together) {}

  MemoryPlan run(const ScratchBytes& scratch_bytes) {
    plan_.slots.resize(function_.types.size());
    plan_.scratch_offset.assign(function_.nodes.size(), -1);
    root_.resize(function_.types.size());
    for (ValueId v = 0; v < root_.size(); ++v) root_[v] = v;
    bind_parameters();
    bind_results();
    find_aliases();
    add_values();
    for (NodeId id = 0; id < function_.nodes.size(); ++id) {
      int64_t bytes = scratch_bytes ? scratch_bytes(function_, id) : 0;
      if (bytes <= 0) continue;
      scratch_.push_back({id, intervals_.size()});
      intervals_.push_back({aligned(bytes), id, id});
      plan_.uses.push_back({.bytes = aligned(bytes), .first = id, .last = id});
    }
    plan_.arena_bytes = pack_intervals(intervals_);
    for (ValueId v = 0; v < root_.size(); ++v) {
      if (interval_of_[root_[v]] >= 0) {
        plan_.slots[v].offset = intervals_[static_cast<size_t>(interval_of_[root_[v]])].offset;
      }
    }
    for (const auto& [id, interval] : scratch_)
      plan_.scratch_offset[id] = intervals_[interval].offset;
    return std::move(plan_);
  }

 private:
  void bind_parameters() {
    bound_.assign(function_.types.size(), false);
    for (ValueId p = 0; p < function_.parameters.size(); ++p) {
      plan_.slots[p] = {MemorySlot::Kind::kParameter, p, 0};
      bound_[p] = true;
    }
  }

  void bind_results() {
    for (uint32_t r = 0; r < function_.results.size(); ++r) {
      ValueId value = function_.results[r];
      GW_ASSERT(!bound_[value], "result ", r, " has no buffer of its own");
      plan_.slots[value] = {MemorySlot::Kind::kResult, r, 0};
      bound_[value] = true;
    }
    for (const auto& pair : local_.in_place) {
      plan_.slots[function_.results[pair.result]] = {MemorySlot::Kind::kParameter, pair.parameter,
                                                     0};
    }
  }

  void find_aliases() {
    std::vector<bool> used_by_commit(function_.types.size(), false);
    for (NodeId id = local_.commit_begin; id < function_.nodes.size(); ++id) {
      for (ValueId input : function_.nodes[id].inputs) used_by_commit[input] = true;
    }
    for (NodeId id = 0; id < function_.nodes.size(); ++id) {
      const Node& node = function_.nodes[id];
      if (!row(node.op).shares_buffer) continue;
      if (bound_[node.first_result]) continue;
      // A value staged for the commit phase must outlive the buffer that it comes from.
      if (node.op == Op::barrier && used_by_commit[node.first_result]) continue;
      root_[node.first_result] = root_[node.inputs[0]];
      plan_.slots[node.first_result] = plan_.slots[root_[node.inputs[0]]];
    }
  }

  void add_values() {
    std::vector<NodeId> last(function_.types.size(), 0);
    for (NodeId id = 0; id < function_.nodes.size(); ++id) {
      for (ValueId input : function_.nodes[id].inputs) last[root_[input]] = id;
    }
    for (const Together& nodes : together_) keep_until_the_last(nodes, last);
    std::vector<bool> always(function_.types.size(), false);
    keep_for_collectives(last, always);
    interval_of_.assign(function_.types.size(), -1);
    for (NodeId id = 0; id < function_.nodes.size(); ++id) {
      const Node& node = function_.nodes[id];
      for (uint32_t r = 0; r < node.results; ++r) {
        ValueId value = node.first_result + r;
        if (root_[value] != value || bound_[value]) continue;
        interval_of_[value] = static_cast<int64_t>(intervals_.size());
        int64_t bytes = std::max<int64_t>(aligned(function_.types[value].bytes()), kArenaAlignment);
        intervals_.push_back({bytes, always[value] ? 0 : id, std::max(id, last[value])});
        const LiveInterval& lives = intervals_.back();
        plan_.uses.push_back({value, bytes, lives.first, lives.last});
      }
    }
  }

  void keep_until_the_last(const Together& nodes, std::vector<NodeId>& last) const {
    const auto keep = [&](ValueId value) {
      NodeId& until = last[root_[value]];
      until = std::max(until, nodes.back());
    };
    for (const NodeId id : nodes) {
      const Node& node = function_.nodes[id];
      for (const ValueId input : node.inputs) keep(input);
      for (uint32_t r = 0; r < node.results; ++r) keep(node.first_result + r);
    }
  }

  // For each root: the last node that it is kept for, and whether it is kept in all of a repeated
  // body. Walks back from the end, tracking the first nodes that read, and the collectives behind.
  void keep_for_collectives(std::vector<NodeId>& last, std::vector<bool>& always) const {
    const auto end = static_cast<NodeId>(function_.nodes.size());
    std::vector<NodeId> first_use(function_.types.size(), end);
    std::vector<NodeId> behind;  // The last first.
    for (NodeId id = end; id-- > 0;) {
      const Node& node = function_.nodes[id];
      if (row(node.op).meets) {
        const bool limited = !gives_more(node) && behind.size() >= kKeptCollectives;
        NodeId until = limited ? behind[behind.size() - kKeptCollectives] : end;
        for (uint32_t r = 0; r < node.results; ++r)
          until = std::min(until, first_use[node.first_result + r]);
        const auto keep = [&](ValueId value) {
          last[value] = std::max(last[value], std::min(until, end - 1));
          if (repeated_ && until == end) always[value] = true;
        };
        for (ValueId input : node.inputs) keep(root_[input]);
        for (uint32_t r = 0; r < node.results; ++r) keep(node.first_result + r);
        behind.push_back(id);
      }
      const bool is_alias = node.results == 1 && root_[node.first_result] != node.first_result;
      for (ValueId input : node.inputs) {
        if (!is_alias) first_use[root_[input]] = id;
      }
    }
  }

  // Whether the node writes more bytes than it reads, as a gather does.
  bool gives_more(const Node& node) const {
    int64_t more = 0;
    for (ValueId input : node.inputs) more -= function_.types[input].bytes();
    for (uint32_t r = 0; r < node.results; ++r)
      more += function_.types[node.first_result + r].bytes();
    return more > 0;
  }

  const LocalFunction& local_;
  const Function& function_;
  const std::optional<Repeated> repeated_;
  const std::vector<Together>& together_;
  MemoryPlan plan_;
  std::vector<ValueId> root_;
  std::vector<bool> bound_;
  std::vector<LiveInterval> intervals_;
  std::vector<int64_t> interval_of_;
  std::vector<std::pair<NodeId, size_t>> scratch_;
};

}  // namespace

MemoryPlan plan_memory(const LocalFunction& local, const ScratchBytes& scratch_bytes,
                       std::optional<Repeated> repeated, const std::vector<Together>& together) {
  return Planner(local, repeated, together).run(scratch_bytes);
}

}  // namespace gangway
