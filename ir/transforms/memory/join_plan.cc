#include "ir/transforms/memory/join_plan.h"

#include <algorithm>
#include <utility>

namespace gangway {
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

class Joiner {
 public:
  // Waits in `joins` until this collective, and with it the older ones of its stream, are done.
  void join(std::vector<Join>& joins, size_t index) {
    const uint32_t stream = overlapped_[index].stream;
    uint32_t newer = 0;
    for (size_t i = overlapped_.size(); i-- > 0;) {
      if (overlapped_[i].stream != stream) continue;
      if (i > index) {
        ++newer;
      } else {
        overlapped_.erase(overlapped_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    std::erase_if(joins, [&](const Join& other) { return other.stream == stream; });
    joins.push_back({stream, newer});
  }
  void join_all(std::vector<Join>& joins) {
    while (!overlapped_.empty()) join(joins, overlapped_.size() - 1);
  }

  // Joins the collectives that the node conflicts with. `stream`: the node's own, if it is a
  // collective; else kNone.
  void join_conflicts(std::vector<Join>& joins, const std::vector<Touch>& now, uint32_t stream) {
    for (size_t i = overlapped_.size(); i-- > 0;) {
      if (i >= overlapped_.size() || overlapped_[i].stream == stream) continue;
      if (conflict(now, overlapped_[i].touched)) join(joins, i);
    }
  }

  // The next iteration sees collectives that still run at the addresses that they have now; those
  // that it can't touch any more are forgotten.
  void repeat(size_t carries) {
    for (Overlapped& overlapped : overlapped_) {
      overlapped.is_older = true;
      std::vector<Touch> again;
      for (const Touch& touch : overlapped.touched) {
        if (const auto seen = seen_again(touch, carries)) again.push_back(*seen);
      }
      overlapped.touched = std::move(again);
    }
  }
  // Joins the collectives of the iteration before.
  void join_older(std::vector<Join>& joins) {
    for (size_t i = overlapped_.size(); i-- > 0;) {
      if (i < overlapped_.size() && overlapped_[i].is_older) join(joins, i);
    }
  }

  void begin(std::vector<Join>& joins, uint32_t stream, std::vector<Touch> now) {
    if (overlapped_.size() == kOverlappedMax) join(joins, 0);
    overlapped_.push_back({stream, std::move(now)});
  }

 private:
  struct Overlapped {
    uint32_t stream;
    std::vector<Touch> touched;
    bool is_older = false;  // It belongs to the iteration before.
  };

  // A carry has two buffers, which change places: what was the result is the parameter now. Other
  // parameters are only read, other results have rows of their own.
  static std::optional<Touch> seen_again(Touch touch, size_t carries) {
    using Kind = MemorySlot::Kind;
    if (touch.at.kind == Kind::kArena) return touch;
    touch.at.kind = touch.at.kind == Kind::kResult ? Kind::kParameter : Kind::kResult;
    return touch.at.index < carries ? std::optional(touch) : std::nullopt;
  }

  std::vector<Overlapped> overlapped_;  // Under way, oldest first.
};

}  // namespace

std::vector<Touch> touched(const LocalFunction& local, const MemoryPlan& memory,
                           const ScratchBytes& scratch_bytes, NodeId id) {
  const Function& function = *local.function;
  const Node& node = function.nodes[id];
  std::vector<Touch> all;
  // One that shares its operand's bytes moves nothing.
  if (row(node.op).shares_buffer && memory.slots[node.first_result] == memory.slots[node.inputs[0]])
    return all;
  for (ValueId input : node.inputs)
    all.push_back({memory.slots[input], function.types[input].bytes(), false});
  for (uint32_t r = 0; r < node.results; ++r) {
    const ValueId result = node.first_result + r;
    all.push_back({memory.slots[result], function.types[result].bytes(), true});
  }
  if (memory.scratch_offset[id] >= 0) {
    all.push_back({{MemorySlot::Kind::kArena, 0, memory.scratch_offset[id]},
                   scratch_bytes(function, id),
                   true});
  }
  return all;
}

JoinPlan plan_joins(const LocalFunction& local, const MemoryPlan& memory,
                    const ScratchBytes& scratch_bytes,
                    const std::function<uint32_t(NodeId)>& stream_of,
                    std::optional<Repeated> repeated) {
  const Function& function = *local.function;
  Joiner joiner;
  const auto iterate = [&] {
    JoinPlan plan;
    plan.before.resize(function.nodes.size());
    for (NodeId id = 0; id < function.nodes.size(); ++id) {
      std::vector<Join>& joins = plan.before[id];
      if (id == local.commit_begin) joiner.join_all(joins);
      std::vector<Touch> now = touched(local, memory, scratch_bytes, id);
      const bool meets = row(function.nodes[id].op).meets;
      const uint32_t stream = !meets ? kNone : stream_of ? stream_of(id) : 0;
      joiner.join_conflicts(joins, now, stream);
      if (meets) joiner.begin(joins, stream, std::move(now));
    }
    return plan;
  };
  JoinPlan plan = iterate();
  if (repeated) {
    joiner.repeat(repeated->carries);
    plan = iterate();
    joiner.join_older(plan.behind);
  } else {
    joiner.join_all(plan.behind);
  }
  return plan;
}

}  // namespace gangway
