// Rows of the collectives that move parts between devices. n members meet, and B is the bytes of
// the operand on each. Cost::bytes is what the member sends that sends most; of an uneven
// all_to_all at least that.
#include <algorithm>

#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rows/collective.h"
#include "ir/op_table/rule.h"
#include "ir/types/axis_list.h"
#include "ir/types/limits.h"
#include "runtime/base/align.h"
#include "runtime/base/quote.h"

namespace gangway::internal {
namespace {

size_t attr_dim(const OpCall& call, std::string_view attr) {
  return static_cast<size_t>(call.attrs.integer(attr));
}

// Size of one row of dimension `dim`, all other dimensions being whole, in bytes.
double row_bytes(const Type& type, size_t dim) {
  Type row = type;
  row.dims[dim] = 1;
  return static_cast<double>(row.bytes());
}

// The rows that a member sends away of `rows` that are cut in `parts` parts of one size: all but
// its own part, of which the last is the smallest.
double rows_sent(int64_t rows, int64_t parts) {
  const int64_t part = ceil_div(rows, parts);
  // part * (parts - 1) < rows + parts unless there are fewer rows than parts.
  const int64_t last = std::max<int64_t>(0, rows - part * std::min(parts - 1, rows));
  return static_cast<double>(rows - last);
}

std::vector<Type> all_gather_type(const OpCall& call) {
  need_axis_list(call, "axes");
  Type result = call.inputs[0];
  const auto dim = static_cast<size_t>(need_axis(call, "dim", result));
  result.dims[dim] = need_size(call, dim, need_parts(call));
  return {result};
}

Cost all_gather_cost(const OpCall& call) {
  const Type& x = call.inputs[0];
  const size_t dim = attr_dim(call, "dim");
  const auto rows = static_cast<double>(std::min(x.dims[dim], call.attrs.integer("size")));
  const auto others = static_cast<double>(call.attrs.integer("parts") - 1);
  return {0, others * rows * row_bytes(x, dim)};
}

std::vector<Type> reduce_scatter_type(const OpCall& call) {
  need_axis_list(call, "axes");
  need_number(call, 0, "operand");
  need_reduction(call);
  Type result = call.inputs[0];
  const auto dim = static_cast<size_t>(need_axis(call, "dim", result));
  result.dims[dim] = ceil_div(result.dims[dim], need_parts(call));
  return {result};
}

Cost reduce_scatter_cost(const OpCall& call) {
  const Type& x = call.inputs[0];
  const size_t dim = attr_dim(call, "dim");
  const double rows = rows_sent(x.dims[dim], call.attrs.integer("parts"));
  return {static_cast<double>(x.elements()), rows * row_bytes(x, dim)};
}

std::vector<Type> all_to_all_type(const OpCall& call) {
  need_axis_list(call, "axes");
  Type result = call.inputs[0];
  const auto split = static_cast<size_t>(need_axis(call, "split_dim", result));
  const auto concat = static_cast<size_t>(need_axis(call, "concat_dim", result));
  GW_NEED(call, split != concat, "split_dim and concat_dim are both ", split,
          ": expected different dimensions of ", to_string(result));
  const int64_t parts = need_parts(call);
  result.dims[split] = ceil_div(result.dims[split], parts);
  result.dims[concat] = need_size(call, concat, parts);
  return {result};
}

Cost all_to_all_cost(const OpCall& call) {
  Type kept = call.inputs[0];
  const size_t split = attr_dim(call, "split_dim"), concat = attr_dim(call, "concat_dim");
  kept.dims[concat] = std::min(kept.dims[concat], call.attrs.integer("size"));
  const double rows = rows_sent(kept.dims[split], call.attrs.integer("parts"));
  return {0, rows * row_bytes(kept, split)};
}

std::vector<Type> ragged_all_to_all_type(const OpCall& call) {
  need_axis_list(call, "axes");
  need_rank_min(call, 0, "rows", 1);
  const Type sizes = i32({need_parts(call)});
  need_type(call, 1, "sizes", sizes);
  Type result = call.inputs[0];
  result.dims[0] = need_between(call, "bound", 0, kElementsMax);
  return {result, sizes};
}

Cost ragged_all_to_all_cost(const OpCall& call) {
  return {0, static_cast<double>(call.inputs[0].bytes() + call.inputs[1].bytes())};
}

std::vector<Type> permute_type(const OpCall& call) {
  need_axis_list(call, "axes");
  need_axis_list(call, "to");
  std::vector<std::string_view> axes = split_axes(call.attrs.text("axes"));
  std::vector<std::string_view> to = split_axes(call.attrs.text("to"));
  std::ranges::sort(axes);
  std::ranges::sort(to);
  GW_NEED(call, axes == to, "to must name the axes ", quote(call.attrs.text("axes")),
          " in some order: got ", quote(call.attrs.text("to")));
  need_between(call, "shift", -kMeshDevicesMax, kMeshDevicesMax);
  return {call.inputs[0]};
}

std::vector<Type> collective_broadcast_type(const OpCall& call) {
  need_axis_list(call, "axes");
  need_between(call, "root", 0, kMeshDevicesMax - 1);
  return {call.inputs[0]};
}

Cost operand_sent(const OpCall& call) { return {0, static_cast<double>(call.inputs[0].bytes())}; }

OpRow exchange(OpRow row) {
  row.family = OpFamily::kCollective;
  row.meets = true;
  if (row.factors == nullptr) row.factors = whole_factors;
  return row;
}

AttrSpec dim_attr(std::string_view name, std::string_view doc) {
  return {name, AttrKind::kInt, {}, doc};
}

OpRow ragged_row() {
  return exchange(
      {.op = Op::ragged_all_to_all,
       .name = "ragged_all_to_all",
       .inputs_min = 2,
       .inputs_max = 2,
       .results = 2,
       .attrs = {axes_attr(),
                 parts_attr(),
                 dim_attr("bound", "the first size of the result"),
                 {"must_fit", AttrKind::kBool, false, "a run with more rows than the bound fails"}},
       .type_rule = ragged_all_to_all_type,
       .no_gradient = kByDistributedOps,
       .cost = ragged_all_to_all_cost,
       .doc = "(rows[r, ...], sizes i32[n]): rows lie sorted by the member that gets them, sizes "
              "says how many each gets. Gives [bound, ...], the rows received, by sender, with "
              "zeros behind them, and i32[n], how many each sender sent. Sizes below 0, or beyond "
              "the rows that are left, count as what there is. Rows beyond the bound are not sent; "
              "the sizes received tell of them all, or the run fails where all must fit. Each "
              "sends its rows for others, at most B, and 4 (n - 1) bytes of sizes."});
}

}  // namespace

std::vector<OpRow> exchange_rows() {
  const AttrSpec size = dim_attr("size", "of dim in the result; what lies behind is dropped");
  return {
      exchange({.op = Op::all_gather,
                .name = "all_gather",
                .attrs = {axes_attr(), dim_attr("dim", "the dimension that is joined"),
                          parts_attr(), size},
                .type_rule = all_gather_type,
                .linear = Linear::kAll,
                .no_gradient = kMadeLater,
                .cost = all_gather_cost,
                .doc = "The parts of all n members along the mesh axes, joined along dim in the "
                       "order of members. Each sends B (n - 1), less what is dropped."}),
      exchange({.op = Op::reduce_scatter,
                .name = "reduce_scatter",
                .attrs = {axes_attr(), dim_attr("dim", "the dimension that is cut"), parts_attr(),
                          reduction_attr()},
                .type_rule = reduce_scatter_type,
                .no_gradient = kMadeLater,
                .cost = reduce_scatter_cost,
                .doc = "Member m of the n along the mesh axes gets part m, along dim, of the "
                       "reduction over all of them. Parts are of one size, rounded up: what lies "
                       "behind the last row is zero. Each sends B (n - 1) / n: all rows but those "
                       "of its own part."}),
      exchange({.op = Op::all_to_all,
                .name = "all_to_all",
                .attrs = {axes_attr(), dim_attr("split_dim", "the dimension that is cut"),
                          dim_attr("concat_dim", "the dimension that is joined"), parts_attr(),
                          dim_attr("size",
                                   "of concat_dim in the result; what lies behind is "
                                   "dropped")},
                .type_rule = all_to_all_type,
                .linear = Linear::kAll,
                .no_gradient = kMadeLater,
                .cost = all_to_all_cost,
                .doc = "Member i's part j of split_dim goes to member j, which joins what it gets "
                       "along concat_dim in the order of members. Parts are of one size, rounded "
                       "up: what lies behind the last row is zero. Each of the n members sends "
                       "B (n - 1) / n, less what is dropped."}),
      ragged_row(),
      exchange({.op = Op::permute,
                .name = "permute",
                .attrs = {axes_attr(),
                          {"to", AttrKind::kString, {}, "the same axes in some order"},
                          {"shift", AttrKind::kInt, int64_t{0}, "added to the receiver's number"}},
                .type_rule = permute_type,
                .factors = elementwise_factors,
                .linear = Linear::kAll,
                .no_gradient = kMadeLater,
                .cost = operand_sent,
                .doc = "Member m of the n along the mesh axes sends its operand to the one that is "
                       "member (m + shift) mod n along the axes in the order of `to`. Each sends "
                       "B, or nothing where that is itself."}),
      exchange({.op = Op::collective_broadcast,
                .name = "collective_broadcast",
                .attrs = {axes_attr(), dim_attr("root", "the member that has the tensor")},
                .type_rule = collective_broadcast_type,
                .factors = elementwise_factors,
                .linear = Linear::kAll,
                .no_gradient = kMadeLater,
                .cost = operand_sent,
                .doc = "The operand of member `root` along the mesh axes, on all n of them. As a "
                       "chain: each sends B to the next, the last of them nothing."}),
  };
}

}  // namespace gangway::internal
