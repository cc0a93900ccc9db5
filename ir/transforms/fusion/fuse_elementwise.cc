#include "ir/transforms/fusion/fuse_elementwise.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/transforms/rewrite/rewrite.h"

namespace gangway {
namespace {

bool is_elementwise(const Node& node) { return row(node.op).family == OpFamily::kElementwise; }

// A broadcast that the fused kernel reads in place: scalar, row or column.
bool is_cheap_broadcast(const Function& function, const Node& node) {
  if (node.op != Op::broadcast) return false;
  const Type& from = function.types[node.inputs[0]];
  const Type& to = function.types[node.first_result];
  if (from.elements() == 1) return true;
  const std::vector<int64_t>& map = node.attrs.ints("map");
  int new_dims = to.rank() - from.rank();
  bool is_row = true, is_column = true;
  for (size_t i = 0; i < map.size(); ++i) {
    if (from.dims[i] != to.dims[static_cast<size_t>(map[i])]) return false;
    is_row &= map[i] == new_dims + static_cast<int64_t>(i);
    is_column &= map[i] == static_cast<int64_t>(i);
  }
  return is_row || is_column;
}

struct Chain {
  std::vector<NodeId> nodes;  // In order.
  std::set<ValueId> operands;
};

class Fuser {
 public:
  Fuser(const Function& local, NodeId commit_begin)
      : local_(local),
        commit_begin_(commit_begin),
        makers_(producers(local)),
        readers_(readers(local)),
        chain_of_(local.nodes.size(), -1) {}

  Function run(NodeId& commit_begin) {
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      if (is_elementwise(local_.nodes[id])) place(id);
    }
    Rewriter out(local_);
    NodeId new_begin = kNone;
    for (NodeId id = 0; id < local_.nodes.size(); ++id) {
      if (id == commit_begin_) new_begin = static_cast<NodeId>(out.target().nodes.size());
      int c = chain_of_[id];
      if (c < 0 || !is_worth_fusing(chains_[static_cast<size_t>(c)])) {
        out.copy(id);
      } else if (chains_[static_cast<size_t>(c)].nodes.back() == id) {
        emit(out, chains_[static_cast<size_t>(c)]);
      }
    }
    commit_begin = new_begin == kNone ? static_cast<NodeId>(out.target().nodes.size()) : new_begin;
    return out.finish();
  }

 private:
  // A single operation is worth it when the chain takes in an operand that would otherwise be laid
  // out in memory for it.
  bool is_worth_fusing(const Chain& chain) const {
    if (chain.nodes.size() != 1) return chain.nodes.size() > 1;
    const auto taken_in = [&](ValueId operand) {
      const NodeId maker = makers_[operand];
      return maker != kNone && (local_.nodes[maker].op == Op::constant ||
                                is_cheap_broadcast(local_, local_.nodes[maker]));
    };
    return std::any_of(chain.operands.begin(), chain.operands.end(), taken_in) &&
           !std::all_of(chain.operands.begin(), chain.operands.end(), taken_in);
  }

  const Dims& dims(NodeId id) const { return local_.types[local_.nodes[id].first_result].dims; }

  // Joins the chains that compute its operands, as many as may run together where it stands, or
  // begins a new one.
  void place(NodeId id) {
    std::set<int, std::greater<>> candidates;
    for (ValueId input : local_.nodes[id].inputs) {
      NodeId maker = makers_[input];
      if (maker != kNone && chain_of_[maker] >= 0) candidates.insert(chain_of_[maker]);
    }
    Chain joined;
    for (int c : candidates) {
      const Chain& chain = chains_[static_cast<size_t>(c)];
      if (dims(chain.nodes.front()) != dims(id)) continue;
      if ((chain.nodes.front() >= commit_begin_) != (id >= commit_begin_)) continue;
      Chain with = joined;
      with.nodes.insert(with.nodes.end(), chain.nodes.begin(), chain.nodes.end());
      if (may_run_at(with, id)) joined = std::move(with);
    }
    joined.nodes.push_back(id);
    std::sort(joined.nodes.begin(), joined.nodes.end());
    joined.operands = operands(joined);
    for (NodeId member : joined.nodes) {
      if (chain_of_[member] >= 0) chains_[static_cast<size_t>(chain_of_[member])].nodes.clear();
    }
    for (NodeId member : joined.nodes) chain_of_[member] = static_cast<int>(chains_.size());
    chains_.push_back(std::move(joined));
  }

  // A chain runs where its last node stands, so no node outside may need it earlier.
  bool may_run_at(const Chain& chain, NodeId id) const {
    if (chain.nodes.size() >= kFusionNodesMax) return false;
    std::set<NodeId> members(chain.nodes.begin(), chain.nodes.end());
    members.insert(id);
    for (NodeId member : chain.nodes) {
      for (const ValueReader& reader : readers_[local_.nodes[member].first_result]) {
        if (reader.node >= id) break;
        if (!members.contains(reader.node)) return false;
      }
    }
    Chain whole{.nodes = {members.begin(), members.end()}};
    return operands(whole).size() <= kFusionOperandsMax;
  }

  // Values that a chain reads from outside.
  std::set<ValueId> operands(const Chain& chain) const {
    std::set<ValueId> made, read;
    for (NodeId member : chain.nodes) {
      made.insert(local_.nodes[member].first_result);
      for (ValueId input : local_.nodes[member].inputs) {
        if (!made.contains(input)) read.insert(input);
      }
    }
    return read;
  }

  void emit(Rewriter& out, const Chain& chain) {
    auto body = std::make_shared<Function>();
    body->name = "fused";
    body->mesh = local_.mesh;
    body->local = true;
    Node fusion{.op = Op::fusion};
    std::map<ValueId, ValueId> inside;  // Outer value -> value of the body.
    // Parameters come first: collect them before any node.
    for (ValueId operand : chain.operands) {
      NodeId maker = makers_[operand];
      ValueId outer = operand;
      if (maker != kNone && local_.nodes[maker].op == Op::constant) continue;
      if (maker != kNone && is_cheap_broadcast(local_, local_.nodes[maker])) {
        outer = local_.nodes[maker].inputs[0];
        if (makers_[outer] != kNone && local_.nodes[makers_[outer]].op == Op::constant) continue;
      }
      if (inside.contains(outer)) continue;
      inside[outer] = static_cast<ValueId>(body->parameters.size());
      body->parameters.push_back({"p" + std::to_string(body->parameters.size()), {}});
      body->types.push_back(local_.types[outer]);
      fusion.inputs.push_back(out.at(outer));
    }
    for (ValueId operand : chain.operands) {
      if (!inside.contains(operand)) pull_in(*body, inside, makers_[operand]);
    }
    for (NodeId id : chain.nodes) append(*body, inside, id);
    std::vector<Type> types;
    std::vector<ValueId> outer_results;
    for (NodeId id : chain.nodes) {
      ValueId value = local_.nodes[id].first_result;
      const bool used = std::ranges::any_of(readers_[value], [&](const ValueReader& reader) {
        return reader.node == kNone || chain_of_[reader.node] != chain_of_[id];
      });
      if (!used) continue;
      outer_results.push_back(value);
      types.push_back(local_.types[value]);
      body->results.push_back(inside[value]);
      body->result_names.push_back("r" + std::to_string(body->results.size() - 1));
    }
    take_locs(*body);
    fusion.body = body;
    NodeInfo info = local_.infos[chain.nodes.back()];
    info.reason = Reason::kFuse;
    ValueId first = out.append(std::move(fusion), types, info);
    for (ValueId value : outer_results) out.set(value, first++);
  }

  // Copies the locations of the body's nodes from the outer function, and the locations that
  // enclose them, which have smaller numbers.
  void take_locs(Function& body) const {
    std::map<uint32_t, uint32_t> now;
    for (const NodeInfo& info : body.infos) {
      for (uint32_t at = info.loc; at != kNone && now.emplace(at, kNone).second;)
        at = local_.locs[at].parent;
    }
    for (auto& [old, id] : now) {
      id = static_cast<uint32_t>(body.locs.size());
      body.locs.push_back(local_.locs[old]);
      uint32_t& parent = body.locs.back().parent;
      if (parent != kNone) parent = now.at(parent);
    }
    for (NodeInfo& info : body.infos) {
      if (info.loc != kNone) info.loc = now.at(info.loc);
    }
  }

  // A constant or a cheap broadcast, cloned into the body with what it needs.
  void pull_in(Function& body, std::map<ValueId, ValueId>& inside, NodeId id) {
    for (ValueId input : local_.nodes[id].inputs) {
      if (!inside.contains(input)) pull_in(body, inside, makers_[input]);
    }
    append(body, inside, id);
  }

  void append(Function& body, std::map<ValueId, ValueId>& inside, NodeId id) {
    Node node = local_.nodes[id];
    for (ValueId& input : node.inputs) input = inside.at(input);
    inside[local_.nodes[id].first_result] = body.value_count();
    node.first_result = body.value_count();
    node.region = 0;
    body.types.push_back(local_.types[local_.nodes[id].first_result]);
    body.nodes.push_back(std::move(node));
    body.infos.push_back(local_.infos[id]);
  }

  const Function& local_;
  NodeId commit_begin_;
  std::vector<NodeId> makers_;
  const std::vector<std::vector<ValueReader>> readers_;  // Indexed by value, in order.
  std::vector<Chain> chains_;
  std::vector<int> chain_of_;
};

}  // namespace

Function fuse_elementwise(const Function& local, NodeId& commit_begin) {
  return Fuser(local, commit_begin).run(commit_begin);
}

}  // namespace gangway
