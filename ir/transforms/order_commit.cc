#include "ir/transforms/order_commit.h"

#include <map>
#include <numeric>
#include <set>

#include "ir/transforms/rewrite/rewrite.h"

namespace gangway {
namespace {

class CommitOrder {
 public:
  CommitOrder(const Function& local, const std::vector<LocalFunction::InPlace>& in_place)
      : local_(local),
        in_place_(in_place),
        makers_(producers(local)),
        uses_(use_counts(local)),
        roots_(roots(local)) {
    for (const auto& pair : in_place) parameter_of_[local.results[pair.result]] = pair.parameter;
  }

  Ordered run() {
    find_writers();
    Rewriter out(local_);
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      if (!writers_.contains(id)) out.copy(id);
    }
    // A new value that is another state's old one (a swap) is staged before anything is
    // overwritten.
    std::map<uint32_t, ValueId> copies;
    for (const auto& pair : in_place_) {
      ValueId value = local_.results[pair.result];
      NodeId maker = makers_[value];
      if (maker != kNone && writers_.contains(maker)) continue;
      copies[pair.result] = out.at(value);
      if (needs_staging(value)) copies[pair.result] = copy(out, out.at(value), maker);
    }
    Ordered ordered;
    ordered.commit_begin = static_cast<NodeId>(out.target().nodes.size());
    for (NodeId id : writers_) out.copy(id);
    for (auto& [result, value] : copies) value = copy(out, value, makers_[local_.results[result]]);
    ordered.function = out.finish();
    for (const auto& [result, value] : copies) ordered.function.results[result] = value;
    return ordered;
  }

 private:
  ValueId copy(Rewriter& out, ValueId value, NodeId maker) const {
    NodeInfo info = maker == kNone ? NodeInfo{} : local_.infos[maker];
    Type type = out.target().types[value];
    return out.append({.op = Op::barrier, .inputs = {value}}, {type}, info);
  }

  void find_writers() {
    // Candidate -> how many of its results replace their own operand.
    std::map<NodeId, uint32_t> covered;
    for (const auto& [value, parameter] : parameter_of_) {
      NodeId id = makers_[value];
      if (id == kNone || row(local_.nodes[id].op).in_place == 0) continue;
      const Node& node = local_.nodes[id];
      uint32_t r = value - node.first_result;
      // p, m, v in, p, m, v out: result r replaces operand r, and is used by nothing else.
      if (node.inputs[r] == parameter && uses_[value] == 1) ++covered[id];
    }
    for (const auto& [id, count] : covered) {
      if (count == local_.nodes[id].results) writers_.insert(id);
    }
    // A writer must not read what another writer overwrites.
    std::map<ValueId, NodeId> overwritten;
    for (NodeId id : writers_) {
      for (uint32_t r = 0; r < local_.nodes[id].results; ++r)
        overwritten[local_.nodes[id].inputs[r]] = id;
    }
    std::erase_if(writers_, [&](NodeId id) { return reads_another(id, overwritten); });
  }

  // For each value: the value whose buffer it shares (plan_memory lets these alias).
  static std::vector<ValueId> roots(const Function& local) {
    std::vector<ValueId> roots(local.types.size());
    std::iota(roots.begin(), roots.end(), ValueId{0});
    for (const Node& node : local.nodes) {
      if (row(node.op).shares_buffer) roots[node.first_result] = roots[node.inputs[0]];
    }
    return roots;
  }

  // Does the buffer belong to a parameter? A barrier that the commit phase reads is a copy already
  // (plan_memory).
  bool needs_staging(ValueId value) const {
    NodeId maker = makers_[value];
    if (maker != kNone && local_.nodes[maker].op == Op::barrier) return false;
    return roots_[value] < local_.parameters.size();
  }

  bool reads_another(NodeId id, const std::map<ValueId, NodeId>& overwritten) const {
    for (ValueId input : local_.nodes[id].inputs) {
      auto at = overwritten.find(roots_[input]);
      if (at != overwritten.end() && at->second != id) return true;
    }
    return false;
  }

  const Function& local_;
  const std::vector<LocalFunction::InPlace>& in_place_;
  std::vector<NodeId> makers_;
  std::vector<uint32_t> uses_;
  std::vector<ValueId> roots_;
  std::map<ValueId, uint32_t> parameter_of_;  // New value -> the parameter whose buffer it takes.
  std::set<NodeId> writers_;
};

}  // namespace

Ordered order_commit(const Function& local, const std::vector<LocalFunction::InPlace>& in_place) {
  return CommitOrder(local, in_place).run();
}

}  // namespace gangway
