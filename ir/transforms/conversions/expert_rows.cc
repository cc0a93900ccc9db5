#include "ir/transforms/conversions/expert_rows.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "ir/graph/bodies.h"
#include "ir/transforms/conversions/steps/step.h"
#include "runtime/base/cat.h"

namespace gangway {
namespace {

// The parameter of the body of `to` that has a value of the body of `from`, an earlier loop: a
// result that is passed on, or an operand that both see whole.
std::optional<ValueId> passed_on(ValueId value, const Node& from, const Node& to) {
  const ScanLayout a(from), b(to);
  const bool is_whole = value >= a.carries && value < a.first_stacked();
  for (size_t p = 0; p < to.inputs.size(); ++p) {
    const bool stands_whole = p >= b.carries && p < b.first_stacked();
    if (is_whole && stands_whole && from.inputs[value] == to.inputs[p])
      return static_cast<ValueId>(p);
    if (b.stacks && p < b.first_stacked()) continue;
    const ValueId result = to.inputs[p] - from.first_result;  // Huge if it is none.
    if (result >= a.carries && result < from.results && from.body->results[result] == value)
      return static_cast<ValueId>(p);
  }
  return std::nullopt;
}

// Whether a reshape from one to the other leaves rows as they are.
bool has_rows_of(const Type& to, const Type& from) {
  return to.rank() > 0 && from.rank() > 0 && to.dims.back() == from.dims.back();
}

}  // namespace

void ExpertRows::take(const std::vector<RowsGiven>& given) {
  Function& body = out_.target();
  for (const RowsGiven& rows : given) {
    const Type& here = body.types[rows.parameter];
    const Type type = {here.dtype, {1, rows.key.bound, here.dims.back()}};
    there_[rows.parameter] = {.key = rows.key, .now = body.value_count()};
    body.parameters.push_back({.name = cat("there.", there_.size()), .placements = {}});
    body.types.push_back(type);
  }
}

std::vector<ValueId> ExpertRows::lower(const DistributedNode& node) {
  const int64_t members = conversions::size_of_axes(out_.source().mesh, node.axes);
  const RowsKey key = key_of(node, members);
  const Exchange& exchange = exchange_of(key, node, members);
  const bool is_product = node.call.op == Op::grouped_dot;
  std::vector<ValueId> inputs(node.inputs.begin(), node.inputs.end());
  inputs[0] = there(inputs[0], key, node.id);
  if (!is_product) inputs[1] = there(inputs[1], key, node.id);
  inputs[2] = exchange.values.front();
  Attrs attrs;
  if (is_product) attrs.set("transpose_w", node.attrs.flag("transpose_w"));
  const ValueId result = append(node.call.op, std::move(inputs), std::move(attrs), node.id);
  return {is_product ? sent_back(key, result, node.id) : result};
}

RowsKey ExpertRows::key_of(const DistributedNode& node, int64_t members) const {
  const Dims& x = type_of(node.inputs[0]).dims;
  return {.sizes = node.inputs[2],
          .slots = x[1],
          .axes = conversions::names_of(out_.source().mesh, {node.axes.begin(), node.axes.end()}),
          .bound = rows_bound(node.attrs.real("bound"), x[0] * x[1], members)};
}

const ExpertRows::Exchange& ExpertRows::exchange_of(const RowsKey& key, const DistributedNode& node,
                                                    int64_t members) {
  const auto [at, is_new] = exchanges_.try_emplace(key);
  Exchange& exchange = at->second;
  if (!is_new) return exchange;
  exchange.shape = {.axes = key.axes,
                    .members = members,
                    .groups = type_of(key.sizes).dims[0],
                    .slots = key.slots,
                    .bound = key.bound};
  exchange.values = trace_nodes(out_, node.id, std::span(&key.sizes, 1),
                                [&](Builder&, const std::vector<Value>& sizes) {
                                  return ExpertExchange(exchange.shape, sizes[0]).values();
                                });
  return exchange;
}

// Rows that lie there already need not be sent.
ValueId ExpertRows::there(ValueId x, const RowsKey& key, NodeId id) {
  const auto known = there_.find(x);
  if (known != there_.end() && known->second.key == key) return known->second.now;
  const Exchange& exchange = exchanges_.at(key);
  std::vector<ValueId> inputs = exchange.values;
  inputs.push_back(x);
  const auto trace = [&](Builder&, const std::vector<Value>& all) {
    return std::vector<Value>{ExpertExchange(exchange.shape, all).there(all.back())};
  };
  const ValueId now = trace_nodes(out_, id, inputs, trace).front();
  there_.try_emplace(x, There{.key = key, .now = now});
  return now;
}

ValueId ExpertRows::sent_back(const RowsKey& key, ValueId now, NodeId id) {
  const Exchange& exchange = exchanges_.at(key);
  std::vector<ValueId> inputs = exchange.values;
  inputs.push_back(now);
  const auto trace = [&](Builder&, const std::vector<Value>& all) {
    return std::vector<Value>{ExpertExchange(exchange.shape, all).here(all.back())};
  };
  const ValueId here = trace_nodes(out_, id, inputs, trace).front();
  there_[here] = {.key = key, .now = now, .is_sent_back = true};
  look_at_new_nodes();
  is_zero_[here] = true;
  return here;
}

ValueId ExpertRows::follow(NodeId id, ValueId result) {
  if (there_.empty()) return result;
  look_at_new_nodes();
  const Node& node = out_.target().nodes[makers_[result]];
  const bool is_view = node.op == Op::constrain || node.op == Op::reshape;
  const auto known = is_view ? there_.find(node.inputs[0]) : there_.end();
  if (known != there_.end() && has_rows_of(type_of(result), type_of(node.inputs[0]))) {
    there_[result] = known->second;
    is_zero_[result] = is_zero_[node.inputs[0]];
  }
  const bool may_run_there =
      node.op == Op::barrier || row(node.op).family == OpFamily::kElementwise;
  return may_run_there ? run_there(id, result) : result;
}

// A node whose rows all lie there runs there too. If it would take rows that are sent back, its
// result is sent instead, unless the result would differ in rows of no expert.
ValueId ExpertRows::run_there(NodeId id, ValueId result) {
  const Node& here = out_.target().nodes[makers_[result]];
  const There* first = nullptr;
  bool takes_sent_back = false;
  for (const ValueId input : here.inputs) {
    if (is_uniform_[input]) continue;
    const auto found = there_.find(input);
    if (found == there_.end()) return result;
    if (first != nullptr && first->key != found->second.key) return result;
    first = &found->second;
    takes_sent_back = takes_sent_back || first->is_sent_back;
  }
  if (first == nullptr) return result;
  const RowsKey key = first->key;
  const Dims dims = type_of(first->now).dims;
  const bool is_zero = vanishes(here);
  Node node = here;  // append() below would move it.
  for (ValueId& input : node.inputs)
    input = is_uniform_[input] ? uniform_there(input, dims, id) : there_.at(input).now;
  const DType dtype = type_of(result).dtype;
  const ValueId now = out_.append(std::move(node), {{dtype, dims}}, info_of(id));
  // Rows that come back are 0 in rows of no expert.
  if (takes_sent_back && is_zero && is_float(dtype)) {
    const ValueId back = sent_back(key, now, id);
    if (type_of(back) == type_of(result)) return back;
    const ValueId shaped = append(Op::reshape, {back}, {{"dims", type_of(result).dims}}, id);
    there_[shaped] = there_.at(back);
    look_at_new_nodes();
    is_zero_[shaped] = true;
    return shaped;
  }
  there_[result] = {.key = key, .now = now};
  is_zero_[result] = is_zero;
  return result;
}

// Whether the node's result is 0 in rows of no expert, given that rows from experts are 0 in these.
bool ExpertRows::vanishes(const Node& node) const {
  const auto is_0 = [&](ValueId input) { return is_zero_[input]; };
  if (node.op == Op::mul) return std::ranges::any_of(node.inputs, is_0);
  if (node.op == Op::div) return is_0(node.inputs[0]);
  if (node.op == Op::select) return is_0(node.inputs[1]) && is_0(node.inputs[2]);
  return row(node.op).keeps_zero && std::ranges::all_of(node.inputs, is_0);
}

void ExpertRows::look_at_new_nodes() {
  const Function& target = out_.target();
  makers_.resize(target.types.size(), kNone);
  is_uniform_.resize(target.types.size());
  is_zero_.resize(target.types.size());
  for (; looked_at_ < target.nodes.size(); ++looked_at_) {
    const Node& node = target.nodes[looked_at_];
    for (uint32_t r = 0; r < node.results; ++r) makers_[node.first_result + r] = looked_at_;
    if (node.results != 1) continue;
    is_uniform_[node.first_result] = is_uniform(node);
    is_zero_[node.first_result] = is_constant_zero(node);
  }
}

// Whether all rows are alike.
bool ExpertRows::is_uniform(const Node& node) const {
  if (node.op == Op::constant) return true;
  if (node.op == Op::broadcast) {
    const int64_t last = type_of(node.first_result).rank() - 1;
    return std::ranges::all_of(node.attrs.ints("map"), [&](int64_t d) { return d == last; });
  }
  return row(node.op).family == OpFamily::kElementwise &&
         std::ranges::all_of(node.inputs, [&](ValueId input) { return is_uniform_[input]; });
}

bool ExpertRows::is_constant_zero(const Node& node) const {
  if (is_filled_with(node, 0)) return true;
  return (node.op == Op::broadcast || node.op == Op::convert) && is_uniform_[node.first_result] &&
         is_zero_[node.inputs[0]];
}

// The uniform value with as many rows as the experts' device has room for. It may end a long chain
// of nodes: values wait in a list for their operands.
ValueId ExpertRows::uniform_there(ValueId value, const Dims& dims, NodeId id) {
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId at = open.back();
    const size_t before = open.size();
    const Node node = out_.target().nodes[makers_[at]];
    if (!uniform_.contains({at, dims}) && node.op != Op::broadcast) {
      std::ranges::copy_if(node.inputs, std::back_inserter(open),
                           [&](ValueId input) { return !uniform_.contains({input, dims}); });
    }
    if (open.size() > before) continue;
    open.pop_back();
    if (!uniform_.contains({at, dims})) uniform_[{at, dims}] = emit_uniform(node, dims, id);
  }
  return uniform_.at({value, dims});
}

// The node's operands are there already.
ValueId ExpertRows::emit_uniform(const Node& node, const Dims& dims, NodeId id) {
  Attrs attrs = node.attrs;
  std::vector<ValueId> inputs = node.inputs;
  if (node.op == Op::broadcast) {
    attrs.set("map", std::vector<int64_t>(attrs.ints("map").size(), 2));
  } else {
    for (ValueId& input : inputs) input = uniform_.at({input, dims});
  }
  if (attrs.find("dims") != nullptr) attrs.set("dims", dims);
  return append(node.op, std::move(inputs), std::move(attrs), id);
}

std::vector<RowsGiven> ExpertRows::give(Node& loop) {
  std::vector<RowsGiven> given;
  if (loops_.empty()) return given;
  look_at_new_nodes();
  const ScanLayout layout(loop);
  const size_t own = loop.inputs.size();
  for (size_t i = layout.stacks ? layout.first_stacked() : 0; i < own; ++i) {
    const auto shows = loops_.find(makers_[loop.inputs[i]]);
    if (shows == loops_.end()) continue;
    const Node& from = out_.target().nodes[shows->first];
    const size_t result = loop.inputs[i] - from.first_result;
    const ScanLayout before(from);
    if (from.op != loop.op || before.length != layout.length || result < before.carries ||
        result >= shows->second.size() || !shows->second[result])
      continue;
    const RowsShown& rows = *shows->second[result];
    const std::optional<ValueId> sizes = passed_on(rows.key.sizes, from, loop);
    if (!sizes) continue;
    given.push_back({static_cast<ValueId>(i), rows.key});
    given.back().key.sizes = *sizes;
    loop.inputs.push_back(from.first_result + rows.result);
  }
  return given;
}

void ExpertRows::loop_shows(ValueId first_result, RowsOfResults rows) {
  if (std::ranges::none_of(rows, [](const auto& shown) { return shown.has_value(); })) return;
  look_at_new_nodes();
  loops_[makers_[first_result]] = std::move(rows);
}

RowsOfResults ExpertRows::show(Function& body) const {
  RowsOfResults shown(body.results.size());
  for (size_t r = 0; r < shown.size(); ++r) {
    const auto found = there_.find(body.results[r]);
    if (found == there_.end()) continue;
    const auto& [key, now, is_sent_back] = found->second;
    shown[r] = RowsShown{key, static_cast<uint32_t>(body.results.size())};
    body.results.push_back(now);
    body.result_names.push_back(cat("there.", r));
  }
  return shown;
}

ValueId ExpertRows::append(Op op, std::vector<ValueId> inputs, Attrs attrs, NodeId id) {
  std::vector<Type> types;
  for (const ValueId input : inputs) types.push_back(type_of(input));
  types = infer_types(op, types, attrs);
  return out_.append({.op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)}, types,
                     info_of(id));
}

NodeInfo ExpertRows::info_of(NodeId id) const {
  const NodeInfo& info = out_.source().infos[id];
  return {.loc = info.loc, .origin = id, .reason = info.reason};
}

}  // namespace gangway
