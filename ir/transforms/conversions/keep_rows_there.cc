#include "ir/transforms/conversions/keep_rows_there.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/transforms/conversions/alike_keys.h"
#include "ir/transforms/conversions/row_exchange.h"
#include "ir/transforms/rewrite/attrs_key.h"
#include "ir/transforms/rewrite/rewrite.h"
#include "ir/transforms/rewrite/simplify.h"
#include "runtime/base/cat.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// Limit on the loops whose rows one loop can read where they lie; rows of further loops are sent
// again.
constexpr size_t kLoopsComparedMax = 64;

// A value as it lies with the experts: [1, bound, width].
struct There {
  RowsKey key;          // In the function before this pass.
  ValueId now = kNone;  // In the function after it.
};

// A scan or a call, and what its body has become.
struct Loop {
  std::shared_ptr<const Function> body;
  std::vector<std::optional<There>> there;  // Indexed by result of the body; keys as in Node::body.
  // Values of the body that it also gives as results, and the index of each among those.
  std::vector<ValueId> more_results;
  std::map<ValueId, size_t> more_at;
  // Operands that it also takes: the loop of this function, and the index in its more_results.
  std::vector<std::pair<NodeId, size_t>> more_operands;
};

// A parameter of a body that its scan hands over as it lies there, too.
struct Seed {
  ValueId parameter = kNone;
  RowsKey key;  // In the body before this pass.
  Type type;
};

struct Done {
  Function function;
  std::vector<std::optional<There>> there;  // Indexed by result.
};

Done with_rows_there(const Function& source, const std::vector<Seed>& seeds);

// The function with parameters for the seeds behind its own.
Function with_parameters(const Function& source, const std::vector<Seed>& seeds) {
  const auto own = static_cast<ValueId>(source.parameters.size());
  const auto more = static_cast<ValueId>(seeds.size());
  const auto moved = [&](ValueId& id) { id = id < own ? id : id + more; };
  Function made = source;
  std::vector<Type> types;
  for (size_t s = 0; s < seeds.size(); ++s) {
    made.parameters.push_back({.name = cat("there.", s), .placements = {}});
    types.push_back(seeds[s].type);
  }
  made.types.insert(made.types.begin() + own, types.begin(), types.end());
  for (Node& node : made.nodes) {
    std::ranges::for_each(node.inputs, moved);
    moved(node.first_result);
  }
  std::ranges::for_each(made.results, moved);
  return made;
}

class Keeper {
 public:
  explicit Keeper(const Function& source)
      : source_(source),
        exchanges_(source),
        out_(source),
        is_uniform_(source.types.size(), false),
        is_constant_zero_(source.types.size(), false),
        vanishes_(source.types.size(), false) {}

  // Says that `there` has the parameter's rows as they lie with the experts.
  void seed(ValueId parameter, There there) { there_[parameter] = std::move(there); }

  Done run() {
    for (NodeId id = 0; id < source_.nodes.size(); ++id) {
      if (shares_body(source_.nodes[id].op)) loops_[id] = loop_of(source_.nodes[id]);
    }
    for (NodeId id = 0; id < source_.nodes.size(); ++id) visit(id);
    Done done;
    for (const ValueId result : source_.results) {
      const There* there = lies_there(result);
      done.there.push_back(there == nullptr ? std::nullopt : std::optional(*there));
    }
    done.function = out_.finish();
    return done;
  }

 private:
  void visit(NodeId id) {
    const Node& node = source_.nodes[id];
    if (shares_body(node.op)) return emit_loop(id);
    if (node.op == Op::barrier) return emit_barrier(id);
    if (has_been_asked(id)) return;
    out_.copy(id);
    if (node.results != 1) return;
    is_uniform_[node.first_result] = is_uniform(node);
    is_constant_zero_[node.first_result] = is_constant_zero(node);
    if (const auto exchange = exchanges_.there(node)) return arrive(*exchange);
    if (const auto exchange = exchanges_.back(node)) return come_back(*exchange);
    if (row(node.op).family == OpFamily::kElementwise) stay(id);
  }

  // Whether the same numbers of rows were exchanged before; the node's result is then that of the
  // first exchange, since two all-to-alls of equal integers have equal results.
  bool has_been_asked(NodeId id) {
    const Node& node = source_.nodes[id];
    if (node.op != Op::all_to_all || source_.types[node.first_result].dtype != DType::kI32)
      return false;
    const auto [before, is_new] =
        asked_.try_emplace({out_.at(node.inputs[0]), attrs_key(node.attrs)}, node.first_result);
    if (!is_new) out_.set(node.first_result, out_.at(before->second));
    return !is_new;
  }

  // Rows that lie there already need not be sent.
  void arrive(const RowExchange& exchange) {
    const ValueId result = exchange.last->first_result;
    const auto known = there_.find(exchange.rows);
    if (known == there_.end()) {
      there_[exchange.rows] = {exchange.key, out_.at(result)};
    } else if (known->second.key == exchange.key &&
               type_of(known->second) == source_.types[result]) {
      out_.set(result, known->second.now);
    }
  }

  void come_back(const RowExchange& exchange) {
    const ValueId result = exchange.last->first_result;
    there_[result] = {exchange.key, out_.at(exchange.rows)};
    is_sent_back_.insert(result);
    vanishes_[result] = true;
    backs_.try_emplace(exchange.key, exchange);
  }

  // An element-wise node whose rows all lie there runs there too. If it would take rows that are
  // sent back, its result is sent instead, unless the result would differ in rows of no expert.
  void stay(NodeId id) {
    const Node& node = source_.nodes[id];
    const There* first = nullptr;
    bool takes_sent_back = false;
    for (const ValueId input : node.inputs) {
      if (is_uniform_[input]) continue;
      const There* there = lies_there(input);
      if (there == nullptr || (first != nullptr && first->key != there->key)) return;
      first = there;
      takes_sent_back = takes_sent_back || is_sent_back_.contains(exchanges_.bare(input));
    }
    if (first == nullptr) return;
    const There from = *first;
    const Dims dims = type_of(from).dims;
    Node local{.op = node.op, .inputs = {}, .attrs = node.attrs};
    for (const ValueId input : node.inputs)
      local.inputs.push_back(is_uniform_[input] ? uniform_there(input, dims, id)
                                                : lies_there(input)->now);
    const Type& type = source_.types[node.first_result];
    const ValueId now = out_.append(std::move(local), {{type.dtype, dims}}, info_of(id));
    there_[node.first_result] = {from.key, now};
    vanishes_[node.first_result] = vanishes(node);
    // Rows that come back are 0 in rows of no expert.
    if (!takes_sent_back || !vanishes_[node.first_result] || !is_float(type.dtype)) return;
    is_sent_back_.insert(node.first_result);
    out_.set(node.first_result, sent_back(from.key, now, type.dims, id));
  }

  // Whether the node's result is 0 in rows of no expert, given that rows from experts are 0 in
  // these.
  bool vanishes(const Node& node) const {
    const auto is_0 = [&](ValueId input) { return is_zero(input); };
    if (node.op == Op::mul) return std::ranges::any_of(node.inputs, is_0);
    if (node.op == Op::div) return is_0(node.inputs[0]);
    if (node.op == Op::select) return is_0(node.inputs[1]) && is_0(node.inputs[2]);
    return row(node.op).keeps_zero && std::ranges::all_of(node.inputs, is_0);
  }
  bool is_zero(ValueId value) const {
    return vanishes_[exchanges_.bare(value)] || is_constant_zero_[value];
  }
  bool is_constant_zero(const Node& node) const {
    if (is_filled_with(node, 0)) return true;
    return (node.op == Op::broadcast || node.op == Op::convert) &&
           is_constant_zero_[node.inputs[0]];
  }

  // Rows that lie with the experts get a barrier of their own.
  void emit_barrier(NodeId id) {
    const Node& node = source_.nodes[id];
    const ValueId result = node.first_result;
    const There* known = lies_there(node.inputs[0]);
    if (known == nullptr) return out_.copy(id);
    const There there{known->key, emit(node.op, {known->now}, node.attrs, id)};
    there_[result] = there;
    if (!is_sent_back_.contains(exchanges_.bare(node.inputs[0]))) return out_.copy(id);
    is_sent_back_.insert(result);
    vanishes_[result] = true;
    out_.set(result, sent_back(there.key, there.now, source_.types[result].dims, id));
  }

  // Sends rows back with the ops of ir/op_table/rows/dropless_experts.cc.
  ValueId sent_back(const RowsKey& key, ValueId rows, const Dims& dims, NodeId id) {
    const RowExchange& as = backs_.at(key);
    const DType dtype = out_.target().types[rows].dtype;
    const int64_t width = out_.target().types[rows].dims[2];
    const auto permuted = [&](const Node& like, ValueId x) {
      const Dims& slots = source_.types[like.inputs[1]].dims;
      const ValueId ones =
          emit(Op::constant, {}, {{"dims", slots}, {"dtype", dtype}, {"value", 1.0}}, id);
      return emit(Op::moe_combine, {x, ones, out_.at(like.inputs[2]), out_.at(like.inputs[3])},
                  like.attrs, id);
    };
    const auto shaped = [&](ValueId x, Dims to) {
      return emit(Op::reshape, {x}, {{"dims", std::move(to)}}, id);
    };
    const int64_t own = source_.types[as.exchange->first_result].dims[0];
    ValueId now = shaped(permuted(*as.first, rows), {key.bound, width});
    now =
        emit(Op::ragged_all_to_all, {now, out_.at(as.exchange->inputs[1])}, as.exchange->attrs, id);
    return shaped(permuted(*as.last, shaped(now, {1, own, width})), dims);
  }

  // Whether all rows are alike.
  bool is_uniform(const Node& node) const {
    if (node.op == Op::constant) return true;
    if (node.op == Op::broadcast) {
      const int64_t last = source_.types[node.first_result].rank() - 1;
      return std::ranges::all_of(node.attrs.ints("map"), [&](int64_t d) { return d == last; });
    }
    return row(node.op).family == OpFamily::kElementwise &&
           std::ranges::all_of(node.inputs, [&](ValueId input) { return is_uniform_[input]; });
  }

  // The uniform value with as many rows as the experts' device has room for. It may end a long
  // chain of nodes: values wait in a list for their operands.
  ValueId uniform_there(ValueId value, const Dims& dims, NodeId id) {
    std::vector<ValueId> open = {value};
    while (!open.empty()) {
      const ValueId at = open.back();
      const size_t before = open.size();
      const Node& node = *exchanges_.maker(at);
      if (!uniform_.contains({at, dims}) && node.op != Op::broadcast) {
        std::ranges::copy_if(node.inputs, std::back_inserter(open),
                             [&](ValueId input) { return !uniform_.contains({input, dims}); });
      }
      if (open.size() > before) continue;
      open.pop_back();
      const auto [made, is_new] = uniform_.try_emplace({at, dims}, kNone);
      if (is_new) made->second = emit_uniform(node, dims, id);
    }
    return uniform_.at({value, dims});
  }

  // The node's operands are there already.
  ValueId emit_uniform(const Node& node, const Dims& dims, NodeId id) {
    Attrs attrs = node.attrs;
    std::vector<ValueId> inputs;
    if (node.op == Op::broadcast) {
      inputs.push_back(out_.at(node.inputs[0]));
      attrs.set("map", std::vector<int64_t>(attrs.ints("map").size(), 2));
    } else {
      for (const ValueId input : node.inputs) inputs.push_back(uniform_.at({input, dims}));
    }
    if (attrs.find("dims") != nullptr) attrs.set("dims", dims);
    return emit(node.op, std::move(inputs), std::move(attrs), id);
  }

  Loop loop_of(const Node& node) {
    const ScanLayout layout(node);
    Loop loop;
    std::vector<Seed> seeds;
    std::map<NodeId, AlikeKeys> alike;  // Keyed by the loop that passes rows on.
    for (size_t i = layout.stacks ? layout.first_stacked() : 0; i < node.inputs.size(); ++i) {
      const Node* from = exchanges_.maker(node.inputs[i]);
      if (from == nullptr || from->op != node.op || layout.next > 0) continue;
      const auto id = static_cast<NodeId>(from - source_.nodes.data());
      const size_t result = node.inputs[i] - from->first_result;
      Loop& other = loops_.at(id);
      const std::optional<There>& there = other.there[result];
      if (!there || result < ScanLayout(*from).carries || ScanLayout(*from).length != layout.length)
        continue;
      if (alike.size() == kLoopsComparedMax && !alike.contains(id)) continue;
      const auto key = alike.try_emplace(id, *from, node).first->second.in_second(there->key);
      if (!key) continue;
      seeds.push_back({.parameter = static_cast<ValueId>(i),
                       .key = *key,
                       .type = other.body->types[there->now]});
      loop.more_operands.emplace_back(id, shown(other, there->now));
    }
    if (!seeds.empty()) {
      Done done = with_rows_there(*node.body, seeds);
      loop.body = std::make_shared<const Function>(std::move(done.function));
      loop.there = std::move(done.there);
      return loop;
    }
    const auto [at, is_new] = bodies_.try_emplace(node.body.get());
    if (is_new) {
      Done done = with_rows_there(*node.body, {});
      at->second.body = std::make_shared<const Function>(std::move(done.function));
      at->second.there = std::move(done.there);
    }
    return at->second;
  }

  static size_t shown(Loop& loop, ValueId value) {
    const auto [at, is_new] = loop.more_at.try_emplace(value, loop.more_results.size());
    if (is_new) loop.more_results.push_back(value);
    return at->second;
  }

  void emit_loop(NodeId id) {
    const Loop& loop = loops_.at(id);
    Node node = source_.nodes[id];
    const ScanLayout layout(node);
    for (ValueId& input : node.inputs) input = out_.at(input);
    for (const auto& [from, more] : loop.more_operands) {
      const Node& other = source_.nodes[from];
      node.inputs.push_back(out_.at(other.first_result) + other.results +
                            static_cast<ValueId>(more));
    }
    const auto begin = source_.types.begin() + node.first_result;
    std::vector<Type> types(begin, begin + node.results);
    node.body = loop.body;
    if (!loop.more_results.empty()) {
      auto body = std::make_shared<Function>(*loop.body);
      for (const ValueId value : loop.more_results) {
        body->results.push_back(value);
        body->result_names.push_back(cat("there.", value));
        Type type = body->types[value];
        if (layout.stacks) type.dims.insert(type.dims.begin(), layout.length);
        types.push_back(std::move(type));
      }
      node.body = std::move(body);
    }
    const uint32_t results = node.results;
    const ValueId old = node.first_result;
    const ValueId first = out_.append(std::move(node), types, source_.infos[id]);
    for (uint32_t r = 0; r < results; ++r) out_.set(old + r, first + r);
  }

  // Null: it does not, or its rows are cut into others.
  const There* lies_there(ValueId value) {
    const auto found = there_.find(exchanges_.bare(value));
    if (found == there_.end()) return nullptr;
    const Dims& dims = source_.types[value].dims;
    const bool has_rows = !dims.empty() && dims.back() == type_of(found->second).dims[2];
    return has_rows ? &found->second : nullptr;
  }
  Type type_of(const There& there) { return out_.target().types[there.now]; }

  NodeInfo info_of(NodeId id) const {
    return {.loc = source_.infos[id].loc, .origin = id, .reason = source_.infos[id].reason};
  }
  ValueId emit(Op op, std::vector<ValueId> inputs, Attrs attrs, NodeId id) {
    std::vector<Type> types;
    for (const ValueId input : inputs) types.push_back(out_.target().types[input]);
    types = infer_types(op, types, attrs);
    return out_.append({.op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)}, types,
                       info_of(id));
  }

  const Function& source_;
  const RowExchanges exchanges_;
  Rewriter out_;
  std::vector<bool> is_uniform_;  // Indexed by value of the source, as are the next two.
  std::vector<bool> is_constant_zero_;
  std::vector<bool> vanishes_;            // 0 in rows of no expert; without reshapes.
  std::map<ValueId, There> there_;        // Without reshapes.
  std::set<ValueId> is_sent_back_;        // An exchange is needed to have them here.
  std::map<RowsKey, RowExchange> backs_;  // The first of each.
  std::map<std::pair<ValueId, std::string>, ValueId> asked_;  // Indexed by operand and attributes.
  std::map<std::pair<ValueId, Dims>, ValueId> uniform_;
  std::map<NodeId, Loop> loops_;
  std::map<const Function*, Loop> bodies_;  // Bodies to which no more rows are passed.
};

Done with_rows_there(const Function& source, const std::vector<Seed>& seeds) {
  const auto own = static_cast<ValueId>(source.parameters.size());
  const auto more = static_cast<ValueId>(seeds.size());
  const Function taking = with_parameters(source, seeds);
  Keeper keeper(taking);
  for (size_t s = 0; s < seeds.size(); ++s) {
    There there{seeds[s].key, own + static_cast<ValueId>(s)};
    if (there.key.sorted >= own) there.key.sorted += more;
    keeper.seed(seeds[s].parameter, std::move(there));
  }
  Done done = keeper.run();
  for (auto& there : done.there) {
    if (there && there->key.sorted >= own) there->key.sorted -= more;
  }
  return done;
}

bool sends_rows(const Function& function) {
  return std::ranges::any_of(function.nodes,
                             [](const Node& node) { return node.op == Op::ragged_all_to_all; });
}

}  // namespace

Function keep_rows_there(const Function& local) {
  BodyTable bodies;
  bodies.add(local);
  bool sends = sends_rows(local);
  for (uint32_t i = 0; i < bodies.size(); ++i) sends = sends || sends_rows(bodies[i]);
  return sends ? simplify(with_rows_there(local, {}).function) : local;
}

}  // namespace gangway
