#include "ir/transforms/overlap/begin_early.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/graph/bodies.h"
#include "ir/transforms/overlap/moves.h"
#include "ir/transforms/rewrite/attrs_key.h"
#include "ir/transforms/rewrite/rewrite.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

constexpr int64_t kBegin = -1;  // Position before the function's first node.

class Schedule {
 public:
  explicit Schedule(const Function& local)
      : local_(local), makers_(producers(local)), behind_(local.nodes.size()) {}

  Function run() {
    for (NodeId id = 0; id < local_.nodes.size(); ++id) behind_[id] = id;
    find_ready();
    find_stored();
    place_sums();
    place_gathers();
    place_operands();
    return in_order();
  }

 private:
  bool meets(NodeId id) const { return row(local_.nodes[id].op).meets; }

  // Behind which node the operands of a node are there.
  int64_t ready_of_operands(NodeId id) const {
    int64_t ready = kBegin;
    for (ValueId input : local_.nodes[id].inputs) {
      if (makers_[input] != kNone) ready = std::max(ready, ready_[makers_[input]]);
    }
    return ready;
  }

  // Moves can be made where their operands are. kBegin: it is of parameters alone.
  void find_ready() {
    ready_.resize(local_.nodes.size());
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      const int64_t operands = ready_of_operands(id);
      const bool moves = only_moves(local_.nodes[id]) && (!meets(id) || operands == kBegin);
      ready_[id] = moves ? operands : id;
    }
  }

  // A stored tensor that is converted, reshaped or turned counts as that tensor still; equal slices
  // or gathers of it count as one value.
  void find_stored() {
    using Key = std::tuple<Op, ValueId, std::string>;
    std::map<Key, ValueId> parts;
    stored_.resize(local_.types.size());
    std::iota(stored_.begin(), stored_.end(), ValueId{0});
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      const Node& node = local_.nodes[id];
      if (ready_[id] != kBegin || node.inputs.empty()) continue;
      const ValueId whole = stored_[node.inputs[0]];
      const bool is_part = meets(id) || node.op == Op::slice || node.op == Op::shard_slice;
      stored_[node.first_result] =
          is_part ? parts.try_emplace({node.op, whole, attrs_key(node.attrs)}, node.first_result)
                        .first->second
                  : whole;
    }
  }

  void place_sums() {
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      const Op op = local_.nodes[id].op;
      if (op == Op::reduce_scatter || op == Op::all_reduce) behind_[id] = ready_of_operands(id);
    }
  }

  void place_gathers() {
    std::vector<NodeId> rounds;  // The first gather of each round.
    bool in_round = false;
    int64_t loop = kBegin;                   // The last one.
    std::map<ValueId, NodeId> gathered;      // Indexed by stored tensor: the last gather of it.
    std::vector<NodeId> read = last_uses();  // Indexed by value.
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      const Node& node = local_.nodes[id];
      if (shares_body(node.op)) loop = id;
      if (!meets(id) || ready_[id] != kBegin) {
        in_round = in_round && (only_moves(node) || node.op == Op::constant);
        continue;
      }
      if (!std::exchange(in_round, true)) rounds.push_back(id);
      const bool far = rounds.size() > kGathersAhead;
      int64_t place = far ? int64_t{rounds[rounds.size() - 1 - kGathersAhead]} - 1 : kBegin;
      if (local_.types[node.first_result].bytes() > kSmallGatherBytes)
        place = std::max(place, loop);
      const auto [before, is_first] = gathered.emplace(stored_[node.inputs[0]], id);
      if (!is_first) {
        const ValueId other = local_.nodes[std::exchange(before->second, id)].first_result;
        place = std::max(place, int64_t{read[other]});
      }
      behind_[id] = std::min(place, int64_t{id});
    }
  }

  std::vector<NodeId> last_uses() const {
    std::vector<NodeId> last(local_.types.size(), 0);
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      for (ValueId input : local_.nodes[id].inputs) last[input] = id;
    }
    return last;
  }

  // Moves the operands of moved gathers and sums along, if nothing else reads them.
  void place_operands() {
    // Indexed by value: the position that its first reader wants.
    std::vector<int64_t> wanted(local_.types.size(), kNobody);
    std::vector<bool> stays(local_.types.size(), false);
    for (ValueId result : local_.results) stays[result] = true;
    for (auto id = static_cast<NodeId>(local_.nodes.size()); id-- > 0;) {
      const Node& node = local_.nodes[id];
      if (only_moves(node) && !meets(id) && node.results == 1 && !stays[node.first_result])
        behind_[id] = std::min(behind_[id], std::max(ready_[id], wanted[node.first_result]));
      for (ValueId input : node.inputs) {
        stays[input] = stays[input] || behind_[id] == int64_t{id};
        wanted[input] = std::min(wanted[input], behind_[id]);
      }
    }
  }

  // Orders nodes by the positions that they want, as far as operands allow.
  Function in_order() const {
    std::vector<uint32_t> missing(local_.nodes.size(), 0);
    std::vector<std::vector<NodeId>> readers(local_.nodes.size());
    using Place = std::pair<int64_t, NodeId>;
    std::priority_queue<Place, std::vector<Place>, std::greater<>> ready;
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      for (ValueId input : local_.nodes[id].inputs) {
        if (makers_[input] == kNone) continue;
        ++missing[id];
        readers[makers_[input]].push_back(id);
      }
      if (missing[id] == 0) ready.emplace(behind_[id], id);
    }
    Rewriter out(local_);
    for (size_t placed = 0; placed < local_.nodes.size(); ++placed) {
      GW_ASSERT(!ready.empty(), local_.name, ": nodes form a cycle");
      const NodeId id = ready.top().second;
      ready.pop();
      out.copy(id);
      for (NodeId reader : readers[id]) {
        if (--missing[reader] == 0) ready.emplace(behind_[reader], reader);
      }
    }
    return out.finish();
  }

  static constexpr int64_t kNobody = int64_t{1} << 40;

  const Function& local_;
  const std::vector<NodeId> makers_;
  std::vector<int64_t> ready_;  // Indexed by node.
  // Indexed by value: for moves, the value that they only move and convert.
  std::vector<ValueId> stored_;
  // Indexed by node: the node that it wants to follow; itself: it stays.
  std::vector<int64_t> behind_;
};

}  // namespace

Function begin_collectives_early(const Function& local) { return Schedule(local).run(); }

}  // namespace gangway
