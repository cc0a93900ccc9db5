#include "ir/transforms/rewrite/packable_attention.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/transforms/rewrite/attrs_key.h"
#include "ir/transforms/rewrite/rewrite.h"

namespace gangway {
namespace {

using Triple = std::array<ValueId, 3>;
using Indices = std::vector<int64_t>;

bool has_no_batch(const Node& dot) {
  return dot.attrs.ints("lhs_batch").empty() && dot.attrs.ints("rhs_batch").empty();
}

// Finds the triples that one function may have, without a look at the loops around it.
class TripleFinder {
 public:
  TripleFinder(const Function& function, const std::vector<NodeId>& makers, bool is_body)
      : function_(function),
        makers_(makers),
        is_body_(is_body),
        uses_(use_counts(function)),
        users_(function.types.size()) {}

  std::vector<PackedTriple> run() {
    std::map<Triple, std::vector<NodeId>> attends;
    for (NodeId id = 0; id < function_.nodes.size(); ++id) {
      const Node& node = function_.nodes[id];
      for (const ValueId input : node.inputs) users_[input].push_back(id);
      const bool is_grad = node.op == Op::attention_grad;
      if (!is_grad && node.op != Op::attention) continue;
      if (node.inputs.size() != (is_grad ? 6 : 3)) continue;  // A part of attention.
      attends[{node.inputs[0], node.inputs[1], node.inputs[2]}].push_back(id);
    }
    std::vector<PackedTriple> found;
    for (auto& [values, nodes] : attends) {
      PackedTriple triple{.values = values, .attends = std::move(nodes), .stacks = {}};
      if (complete(triple)) found.push_back(std::move(triple));
    }
    return found;
  }

 private:
  bool complete(PackedTriple& triple) const {
    const auto& [q, k, v] = triple.values;
    if (q == k || q == v || k == v || type(q) != type(k) || type(q) != type(v)) return false;
    triple.is_given = std::ranges::all_of(triple.values, [&](ValueId value) {
      return is_body_ && value < function_.parameters.size();
    });
    if (!triple.is_given && !are_products(triple.values)) return false;
    return are_read_by_these(triple) &&
           std::ranges::all_of(triple.attends, [&](NodeId id) { return gives_to_products(id); });
  }

  // Whether the three are x wq, x wk and x wv, where x has more rows than the weights have columns
  // together.
  bool are_products(const Triple& values) const {
    for (const ValueId value : values) {
      if (makers_[value] == kNone || function_.nodes[makers_[value]].op != Op::dot) return false;
    }
    const Node& first = function_.nodes[makers_[values[0]]];
    const ValueId x = first.inputs[0], w = first.inputs[1];
    for (const ValueId value : values) {
      const Node& node = function_.nodes[makers_[value]];
      if (node.inputs[0] != x || type(node.inputs[1]) != type(w) ||
          attrs_key(node.attrs) != attrs_key(first.attrs))
        return false;
    }
    const bool plain = has_no_batch(first) && type(w).rank() == 2 && type(x).rank() == 3 &&
                       first.attrs.ints("lhs_contract") == Indices{2};
    return plain && 3 * bytes(w) < bytes(x);
  }

  // Whether only its attention reads the three, and all or none of them are results that are
  // stacked.
  bool are_read_by_these(PackedTriple& triple) const {
    size_t results = 0;
    for (size_t i = 0; i < triple.values.size(); ++i) {
      const auto at = std::ranges::find(function_.results, triple.values[i]);
      if (at == function_.results.end()) continue;
      triple.stacks[i] = static_cast<size_t>(at - function_.results.begin());
      ++results;
    }
    const bool may_be = is_body_ && !triple.is_given && results == triple.values.size();
    if (results != 0 && !may_be) return false;
    triple.is_stacked = results != 0;
    const size_t uses = triple.attends.size() + (triple.is_stacked ? 1 : 0);
    return std::ranges::all_of(triple.values, [&](ValueId value) { return uses_[value] == uses; });
  }

  // Whether only products read dq, dk and dv: products of each with its weight, which are summed,
  // and products of the same tensors with each of dq, dk and dv.
  bool gives_to_products(NodeId id) const {
    const Node& grad = function_.nodes[id];
    if (grad.op != Op::attention_grad) return true;
    using Partners = std::multiset<std::pair<ValueId, std::string>>;
    std::array<Partners, 3> partners;
    for (uint32_t i = 0; i < partners.size(); ++i) {
      const ValueId part = grad.first_result + i;
      if (uses_[part] != users_[part].size()) return false;  // A result.
      for (const NodeId user : users_[part]) {
        const Node& node = function_.nodes[user];
        if (node.op != Op::dot || !has_no_batch(node)) return false;
        if (is_column_product(node, part)) {
          partners[i].emplace(node.inputs[0], attrs_key(node.attrs));
        } else if (!is_term(node, part)) {
          return false;
        }
      }
    }
    return partners[0] == partners[1] && partners[0] == partners[2];
  }

  // Whether the product is x part, whose columns are those of the part.
  bool is_column_product(const Node& node, ValueId part) const {
    return node.inputs[1] == part && node.inputs[0] != part &&
           node.attrs.ints("rhs_contract") == Indices{0, 1};
  }

  // Whether the product is part w, and its only reader is a sum.
  bool is_term(const Node& node, ValueId part) const {
    const std::vector<NodeId>& users = users_[node.first_result];
    return node.inputs[0] == part && node.inputs[1] != part &&
           node.attrs.ints("lhs_contract") == Indices{2} && uses_[node.first_result] == 1 &&
           users.size() == 1 && function_.nodes[users[0]].op == Op::add;
  }

  const Type& type(ValueId value) const { return function_.types[value]; }
  double bytes(ValueId value) const { return static_cast<double>(type(value).bytes()); }

  const Function& function_;
  const std::vector<NodeId>& makers_;
  const bool is_body_;
  const std::vector<uint32_t> uses_;
  std::vector<std::vector<NodeId>> users_;  // Indexed by value.
};

// Whether the stacks of one scan have the same rows in the other.
bool stacks_alike(const Node& first, const Node& second) {
  if (!row(first.op).repeats_body || !row(second.op).repeats_body) return false;
  const ScanLayout one(first), other(second);
  return one.length == other.length && one.next == 0 && other.next == 0;
}

}  // namespace

PackableAttention::PackableAttention(const Function& local) {
  BodyTable bodies;
  bodies.add(local);
  for (uint32_t i = 0; i < bodies.size(); ++i) collect(bodies[i], true);
  collect(local, false);
  bool again = !none();
  while (again) {
    again = drop_unmatched(local);
    for (uint32_t i = 0; i < bodies.size(); ++i) again = drop_unmatched(bodies[i]) || again;
  }
}

bool PackableAttention::none() const {
  return std::ranges::all_of(triples_, [](const auto& of) { return of.second.empty(); });
}

const std::vector<PackedTriple>& PackableAttention::of(const Function& function) const {
  return triples_.at(&function);
}

void PackableAttention::collect(const Function& function, bool is_body) {
  const auto& makers = makers_[&function] = producers(function);
  triples_[&function] = TripleFinder(function, makers, is_body).run();
}

std::optional<PackableAttention::Given> PackableAttention::given(const Function& function,
                                                                 NodeId loop,
                                                                 const PackedTriple& triple) const {
  const Node& node = function.nodes[loop];
  const auto operand = [&](size_t i) { return node.inputs[triple.values[i]]; };
  const NodeId from = makers_.at(&function)[operand(0)];
  if (from == kNone || triple.values[0] < ScanLayout(node).first_stacked()) return {};
  const Node& other = function.nodes[from];
  if (!stacks_alike(other, node)) return {};
  const std::vector<PackedTriple>& triples = of(*other.body);
  for (size_t t = 0; t < triples.size(); ++t) {
    bool is_it = triples[t].is_stacked && triples[t].stacks[0] >= ScanLayout(other).carries;
    for (size_t i = 0; i < triple.values.size(); ++i)
      is_it = is_it && operand(i) == other.first_result + triples[t].stacks[i];
    if (is_it) return Given{from, t};
  }
  return {};
}

// Whether only loops that take the triple as one read the stacks that `loop` gives of it.
bool PackableAttention::is_taken(const Function& function, NodeId loop,
                                 const PackedTriple& triple) const {
  const ValueId first = function.nodes[loop].first_result;
  std::array<size_t, 3> uses = {}, taken = {};
  const auto count = [&](ValueId value) {
    for (size_t i = 0; i < uses.size(); ++i) uses[i] += value == first + triple.stacks[i] ? 1 : 0;
  };
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const Node& node = function.nodes[id];
    for (const ValueId input : node.inputs) count(input);
    if (!row(node.op).repeats_body) continue;
    for (const PackedTriple& other : of(*node.body)) {
      if (!other.is_given) continue;
      const std::optional<Given> from = given(function, id, other);
      if (!from || from->loop != loop || &of(*function.nodes[loop].body)[from->triple] != &triple)
        continue;
      for (size_t& one : taken) ++one;
    }
  }
  for (const ValueId result : function.results) count(result);
  return uses == taken;
}

// Drops triples of the bodies of the function's loops that some loop does not get as one triple, or
// whose readers do not take them as one. Returns whether it dropped any.
bool PackableAttention::drop_unmatched(const Function& function) {
  bool any = false;
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const Node& node = function.nodes[id];
    if (!shares_body(node.op)) continue;
    const bool is_loop = row(node.op).repeats_body;
    std::vector<PackedTriple> kept;
    for (const PackedTriple& triple : of(*node.body)) {
      const bool comes = !triple.is_given || (is_loop && given(function, id, triple));
      const bool goes = !triple.is_stacked || (is_loop && is_taken(function, id, triple));
      if (comes && goes) kept.push_back(triple);
    }
    std::vector<PackedTriple>& triples = triples_.at(node.body.get());
    any = any || kept.size() != triples.size();
    triples = std::move(kept);
  }
  return any;
}

}  // namespace gangway
