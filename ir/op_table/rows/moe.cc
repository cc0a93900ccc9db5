// Rows of the mixture-of-experts ops: routing, dispatch, the experts' matrix products, combine, and
// the adjoints.
//
// Shapes: x [groups, tokens, dim]; slots hold the (token, choice) pairs of a group in expert order.
// slot_token i32[groups, slots] is token * k + choice or -1; token_slot i32[groups, tokens, k] is
// the pair's slot or -1 (dropped). The first `sizes[g, 0]` rows belong to expert 0, and so on; rows
// behind them all give zeros.
#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rows/composite.h"
#include "ir/op_table/rows/dropless_experts.h"

namespace gangway::internal {
namespace {

std::vector<Type> route_type(const OpCall& call) {
  need_dtype(call, 0, "expert", DType::kI32);
  need_rank(call, 0, "expert", 3);
  const Dims& dims = call.inputs[0].dims;
  int64_t experts = need_between(call, "experts", 1, 1 << 20);
  int64_t capacity = need_between(call, "capacity", 0, 1 << 20);
  int64_t pairs = dims[1] * dims[2];
  int64_t slots = capacity > 0 ? experts * capacity : pairs;
  need_counts(call, DType::kI32, pairs, "the list of a group's pairs of token and choice");
  need_counts(call, DType::kI32, slots, "the list of a group's slots");
  return {i32({dims[0], slots}), call.inputs[0], i32({dims[0], experts})};
}

// x[groups, rows, dim] of a float type.
void need_rows(const OpCall& call, size_t i, std::string_view name) {
  need_float(call, i, name);
  need_rank(call, i, name, 3);
}

// slot_token and token_slot at inputs i and i + 1.
void need_route(const OpCall& call, size_t i, int64_t groups, int64_t slots, int64_t tokens) {
  const Type &slot_token = call.inputs[i], &token_slot = call.inputs[i + 1];
  bool ok = token_slot.rank() == 3 && token_slot.dtype == DType::kI32 &&
            token_slot.dims[0] == groups && (tokens < 0 || token_slot.dims[1] == tokens) &&
            slot_token.rank() == 2 && slot_token.dtype == DType::kI32 &&
            slot_token.dims[0] == groups && (slots < 0 || slot_token.dims[1] == slots);
  GW_NEED(call, ok, "the route does not fit ", to_string(call.inputs[0]),
          i == 2 ? cat(" and ", to_string(call.inputs[1])) : "",
          ": expected slot_token i32[groups, slots] and token_slot i32[groups, tokens, k], got ",
          to_string(slot_token), " and ", to_string(token_slot));
}

std::vector<Type> dispatch_type(const OpCall& call) {
  need_rows(call, 0, "x");
  const Dims& x = call.inputs[0].dims;
  need_route(call, 1, x[0], -1, x[1]);
  int64_t k = call.attrs.integer("k");
  GW_NEED(call, k == call.inputs[2].dims[2], "k differs from token_slot: got ", k, " and ",
          to_string(call.inputs[2]));
  return {{call.inputs[0].dtype, {x[0], call.inputs[1].dims[1], x[2]}}};
}

// gate[groups, tokens, k] at input 1, of the rows' element type.
void need_gate(const OpCall& call) {
  need_same_dtype(call, 0, "rows", 1, "gate");
  GW_NEED(call, call.inputs[1].dims == call.inputs[3].dims, "shapes differ: gate is ",
          to_string(call.inputs[1]), ", token_slot is ", to_string(call.inputs[3]));
}

std::vector<Type> combine_type(const OpCall& call) {
  need_rows(call, 0, "y");
  const Dims& y = call.inputs[0].dims;
  need_route(call, 2, y[0], y[1], -1);
  need_gate(call);
  return {{call.inputs[0].dtype, {y[0], call.inputs[3].dims[1], y[2]}}};
}

std::vector<Type> combine_grad_y_type(const OpCall& call) {
  need_rows(call, 0, "dout");
  const Dims& dout = call.inputs[0].dims;
  need_route(call, 2, dout[0], -1, dout[1]);
  need_gate(call);
  return {{call.inputs[0].dtype, {dout[0], call.inputs[2].dims[1], dout[2]}}};
}

std::vector<Type> combine_grad_w_type(const OpCall& call) {
  need_rows(call, 0, "dout");
  need_rows(call, 1, "y");
  need_same_dtype(call, 0, "dout", 1, "y");
  const Dims &dout = call.inputs[0].dims, &y = call.inputs[1].dims;
  GW_NEED(call, dout[0] == y[0] && dout[2] == y[2], "groups or dim differ: dout is ",
          to_string(call.inputs[0]), ", y is ", to_string(call.inputs[1]));
  need_route(call, 2, dout[0], y[1], dout[1]);
  return {call.inputs[3].with(call.inputs[0].dtype)};
}

// The experts of a product, -1: any number. With a capacity its rows say how many there are;
// without one a third input does, which says how many rows each has.
void need_experts(const OpCall& call, int64_t experts) {
  const Dims& rows = call.inputs[0].dims;
  const int64_t capacity = need_between(call, "capacity", 0, 1 << 20);
  if (capacity > 0) {
    GW_NEED(call, call.inputs.size() == 2,
            "with a capacity there are no sizes: expected 2 operands, got ", call.inputs.size());
    GW_NEED(call, rows[1] % capacity == 0 && (experts < 0 || rows[1] == experts * capacity),
            "slots differ from experts * capacity: capacity is ", capacity, " beside ",
            to_string(call.inputs[0]), " and ", to_string(call.inputs[1]));
    return;
  }
  GW_NEED(call, call.inputs.size() == 3,
          "without a capacity sizes are needed: expected 3 operands, got ", call.inputs.size());
  const Type& sizes = call.inputs[2];
  bool ok = sizes.dtype == DType::kI32 && sizes.rank() == 2 && sizes.dims[0] == rows[0] &&
            (experts < 0 || sizes.dims[1] == experts);
  GW_NEED(call, ok, "sizes does not fit: expected i32[", rows[0], ", experts], got ",
          to_string(sizes), " beside ", to_string(call.inputs[0]), " and ",
          to_string(call.inputs[1]));
}

int64_t experts_of(const OpCall& call) {
  const int64_t capacity = call.attrs.integer("capacity");
  return capacity > 0 ? call.inputs[0].dims[1] / capacity : call.inputs[2].dims[1];
}

std::vector<Type> grouped_dot_type(const OpCall& call) {
  need_rows(call, 0, "x");
  need_rows(call, 1, "w");
  need_same_dtype(call, 0, "x", 1, "w");
  const Dims &x = call.inputs[0].dims, &w = call.inputs[1].dims;
  size_t in = call.attrs.flag("transpose_w") ? 2 : 1;
  GW_NEED(call, x[2] == w[in], "contracted sizes differ: x dim 2 is ", x[2], " in ",
          to_string(call.inputs[0]), ", w dim ", in, " is ", w[in], " in ",
          to_string(call.inputs[1]));
  need_experts(call, w[0]);
  return {{call.inputs[0].dtype, {x[0], x[1], w[3 - in]}}};
}

std::vector<Type> grouped_dot_grad_w_type(const OpCall& call) {
  need_rows(call, 0, "x");
  need_rows(call, 1, "dy");
  need_same_dtype(call, 0, "x", 1, "dy");
  const Dims &x = call.inputs[0].dims, &dy = call.inputs[1].dims;
  GW_NEED(call, x[0] == dy[0] && x[1] == dy[1], "groups or slots differ: x is ",
          to_string(call.inputs[0]), ", dy is ", to_string(call.inputs[1]));
  need_experts(call, -1);
  return {{call.inputs[0].dtype, {experts_of(call), x[2], dy[2]}}};
}

// Decompositions.

// Row r of group g of a tensor [groups, rows, ...] seen as [groups * rows, ...]; -1 stays out of
// range.
Value flat_rows(Value index, int64_t rows, Loc loc) {
  Value group = iota(index.builder(), index.type(), 0, loc);
  return where(lt(index, 0), -1, index + group * rows);
}

// [groups, rows, ...] -> [groups * rows, ...]
Value merge_groups(Value x, Loc loc) {
  Dims dims = x.type().dims;
  dims.erase(dims.begin());
  dims[0] *= x.dim(0);
  return reshape(x, dims, loc);
}

// Rows x[g, index[g, ...], :]; zeros where the index is -1.
Value gather_rows(Value x, Value index, Loc loc) {
  return take(merge_groups(x, loc), flat_rows(index, x.dim(1), loc), loc);
}

Values dispatch_parts(const DecomposeCall& d) {
  Value pair = d.inputs[1];
  Value token = where(lt(pair, 0), -1, pair / d.node.attrs.integer("k"));
  return {gather_rows(d.inputs[0], token, d.loc)};
}

// [g, t, k] beside [g, t, k, dim].
Value beside_rows(Value gate, Value rows, Loc loc) { return along_last(gate, rows, loc); }

Values combine_parts(const DecomposeCall& d) {
  Value rows = raise(gather_rows(d.inputs[0], d.inputs[3], d.loc), d.loc);
  Value gate = beside_rows(raise(d.inputs[1], d.loc), rows, d.loc);
  return {convert(sum(gate * rows, {2}, d.loc), d.inputs[0].dtype(), d.loc)};
}

Values combine_grad_y_parts(const DecomposeCall& d) {
  Value dout = d.inputs[0], gate = d.inputs[1], pair = d.inputs[2];
  int64_t tokens = gate.dim(1), k = gate.dim(2);
  Value flat = reshape(gate, {gate.dim(0), tokens * k}, d.loc);
  Value weight = raise(gather_rows(flat, pair, d.loc), d.loc);
  Value token = where(lt(pair, 0), -1, pair / k);
  Value rows = raise(gather_rows(dout, token, d.loc), d.loc);
  return {convert(rows * along_last(weight, rows, d.loc), dout.dtype(), d.loc)};
}

Values combine_grad_w_parts(const DecomposeCall& d) {
  Value rows = raise(gather_rows(d.inputs[1], d.inputs[3], d.loc), d.loc);
  Value dout = broadcast_in(raise(d.inputs[0], d.loc), rows.type().dims, {0, 1, 3}, d.loc);
  return {convert(sum(rows * dout, {-1}, d.loc), d.inputs[0].dtype(), d.loc)};
}

// 1 where slot s of group g belongs to expert e: [groups, slots, experts].
Value membership(const DecomposeCall& d, int64_t experts) {
  const Loc loc = d.loc;
  const int64_t slots = d.inputs[0].dim(1), capacity = d.node.attrs.integer("capacity");
  const DType dtype = raise(d.inputs[0], loc).dtype();
  Value sizes = d.inputs.size() > 2 ? d.inputs[2]
                                    : d.builder.constant(i32({d.inputs[0].dim(0), experts}),
                                                         static_cast<double>(capacity), loc);
  Dims dims = {sizes.dim(0), slots, sizes.dim(1)};
  auto wide = [&](Value x) { return broadcast_in(x, dims, {0, 2}, loc); };
  Value end = cumsum(sizes, 1, loc);
  Value slot = iota(sizes.builder(), i32(dims), 1, loc);
  return convert(logical_and(lt(slot, wide(end)), ge(slot, wide(end - sizes)), loc), dtype, loc);
}

Values grouped_dot_parts(const DecomposeCall& d) {
  Value x = raise(d.inputs[0], d.loc), w = raise(d.inputs[1], d.loc);
  int64_t in = d.node.attrs.flag("transpose_w") ? 2 : 1;
  Value every = dot_general(x, w, {{}, {}, {2}, {in}}, d.loc);  // [g, s, e, h]
  Value mine = membership(d, w.dim(0));
  Value y = sum(every * along_last(mine, every, d.loc), {2}, d.loc);
  return {convert(y, d.inputs[0].dtype(), d.loc)};
}

Values grouped_dot_grad_w_parts(const DecomposeCall& d) {
  Value x = raise(d.inputs[0], d.loc), dy = raise(d.inputs[1], d.loc);
  const int64_t capacity = d.node.attrs.integer("capacity");
  Value mine = membership(d, capacity > 0 ? x.dim(1) / capacity : d.inputs[2].dim(1));
  Dims dims = {x.dim(0), x.dim(1), mine.dim(2), x.dim(2)};
  Value rows = broadcast_in(x, dims, {0, 1, 3}, d.loc) * broadcast_in(mine, dims, {0, 1, 2}, d.loc);
  Value dw = dot_general(rows, dy, {{}, {}, {0, 1}, {0, 1}}, d.loc);
  return {convert(dw, d.inputs[0].dtype(), d.loc)};
}

Values route_parts(const DecomposeCall& d) {
  Value expert = d.inputs[0];
  int64_t groups = expert.dim(0), pairs = expert.dim(1) * expert.dim(2);
  int64_t experts = d.node.attrs.integer("experts"), capacity = d.node.attrs.integer("capacity");
  Dims wide = {groups, pairs, experts};
  auto spread = [&](Value x) { return broadcast_in(x, wide, {0, 1}, d.loc); };
  Value choice = reshape(expert, {groups, pairs}, d.loc);
  Value mine = eq(spread(choice), iota(d.builder, i32(wide), 2, d.loc));
  Value one = convert(mine, DType::kI32, d.loc);
  Value rank = sum((cumsum(one, 1, d.loc) - one) * one, {2}, d.loc);  // Within its expert.
  Value counts = sum(one, {1}, d.loc);
  Value start = iota(d.builder, counts.type(), 1, d.loc) * capacity;
  Value sizes = constant_like(counts, static_cast<double>(capacity), d.loc);
  if (capacity == 0) {
    start = cumsum(counts, 1, d.loc) - counts;
    sizes = counts;
  }
  Value slot = sum(broadcast_in(start, wide, {0, 2}, d.loc) * one, {2}, d.loc) + rank;
  Value valid = logical_and(ge(choice, 0), lt(choice, experts), d.loc);
  if (capacity > 0) valid = logical_and(valid, lt(rank, capacity), d.loc);
  slot = where(valid, slot, -1);
  int64_t slots = capacity > 0 ? experts * capacity : pairs;
  Dims match = {groups, pairs, slots};
  Value taken = eq(broadcast_in(slot, match, {0, 1}, d.loc), iota(d.builder, i32(match), 2, d.loc));
  Value pair = iota(d.builder, i32(match), 1, d.loc) + 1;
  return {sum(where(taken, pair, 0), {1}, d.loc) - 1, reshape(slot, expert.type().dims, d.loc),
          sizes};
}

// Gradients. Dispatch and combine are each other's adjoint, gates aside.

Values dispatch_gradient(const GradientCall& g) {
  Value ones = g.builder.constant(g.inputs[2].type().with(g.inputs[0].dtype()), 1, g.loc);
  return {g.builder.emit1(Op::moe_combine, {g.cotangents[0], ones, g.inputs[1], g.inputs[2]}, {},
                          g.loc),
          Value(), Value()};
}

// All three of combine, combine_grad_y and combine_grad_w are bilinear in their first two inputs.
Values bilinear(const GradientCall& g, Op first, std::array<Value, 2> a, Op second,
                std::array<Value, 2> b) {
  auto make = [&](Op op, std::array<Value, 2> of) {
    return g.builder.emit1(op, {of[0], of[1], g.inputs[2], g.inputs[3]}, {}, g.loc);
  };
  return {make(first, a), make(second, b), Value(), Value()};
}

// A product of the same rows: sizes or capacity are those of the node.
Value same_rows(const GradientCall& g, Op op, Value a, Value b, Attrs attrs) {
  Values inputs = {a, b};
  if (g.inputs.size() > 2) inputs.push_back(g.inputs[2]);
  for (const char* same : {"capacity", "bound"}) attrs.set(same, *g.node.attrs.find(same));
  return g.builder.emit1(op, inputs, std::move(attrs), g.loc);
}

Values gradients_of(const GradientCall& g, Value first, Value second) {
  Values all(g.inputs.size());
  all[0] = first;
  all[1] = second;
  return all;
}

Values grouped_dot_gradient(const GradientCall& g) {
  Value x = g.inputs[0], w = g.inputs[1], ct = g.cotangents[0];
  bool transposed = g.node.attrs.flag("transpose_w");
  Value dx = same_rows(g, Op::grouped_dot, ct, w, {{"transpose_w", !transposed}});
  Value dw = transposed ? same_rows(g, Op::grouped_dot_grad_w, ct, x, {})
                        : same_rows(g, Op::grouped_dot_grad_w, x, ct, {});
  return gradients_of(g, dx, dw);
}

Values grouped_dot_grad_w_gradient(const GradientCall& g) {
  Value x = g.inputs[0], dy = g.inputs[1], ct = g.cotangents[0];
  auto product = [&](Value rows, bool transposed) {
    return same_rows(g, Op::grouped_dot, rows, ct, {{"transpose_w", transposed}});
  };
  return gradients_of(g, product(dy, true), product(x, false));
}

Cost grouped_dot_cost(const OpCall& call) {
  double inner = static_cast<double>(call.inputs[0].dims[2]);
  return {2 * inner * result_elements(call), bytes_moved(call)};
}

Cost grouped_dot_grad_w_cost(const OpCall& call) {
  double columns = static_cast<double>(call.inputs[1].dims[2]);
  return {2 * columns * static_cast<double>(call.inputs[0].elements()), bytes_moved(call)};
}

// The experts along which operands and results that have groups are cut by them.
Factors with_dropless(const OpCall& call, Factors factors) {
  const int64_t groups = call.inputs[0].dims[0], experts = experts_of(call);
  Factor both{.name = 'x',
              .kind = FactorKind::kPass,
              .size = std::gcd(groups, experts),
              .input_dims = {0, 0, 0},
              .result_dims = {0},
              .distributed_op = kDroplessExperts};
  // Weights decide that the product is cut so, so this factor precedes their other one.
  if (both.size > 1) factors.insert(factors.begin() + 1, std::move(both));
  return factors;
}

// With a capacity the expert is the outer part of a slot's number, so that a cut by experts cuts
// the slots: rows go to their experts and back by an all-to-all.
//
// Without one, a device that has some of the experts and some of the groups takes a distributed op,
// which is a factor of both: `x`, which is not among the letters.
Factors product_factors(const OpCall& call, std::string_view even, std::string_view by_sizes) {
  if (call.attrs.integer("capacity") == 0)
    return with_dropless(call, einsum_factors(call, by_sizes));
  Factors factors = einsum_factors(call, even);
  for (Factor& factor : factors) {
    if (factor.name == 'e') factor.size = experts_of(call);
  }
  return factors;
}

Factors grouped_dot_factors(const OpCall& call) {
  return call.attrs.flag("transpose_w")
             ? product_factors(call, "ged, ehd -> geh; reduce d",
                               "gsd, ehd, ge -> gsh; whole se; reduce d")
             : product_factors(call, "ged, edh -> geh; reduce d",
                               "gsd, edh, ge -> gsh; whole se; reduce d");
}

Factors grouped_dot_grad_w_factors(const OpCall& call) {
  return product_factors(call, "ged, geh -> edh; reduce g",
                         "gsd, gsh, ge -> edh; whole se; reduce g");
}

OpRow product(OpRow row) {
  row.inputs_min = 2;
  row.inputs_max = 3;
  row.attrs.push_back({"capacity", AttrKind::kInt, int64_t{0}, "rows of each expert; 0: by sizes"});
  row.attrs.push_back({"bound", AttrKind::kDouble, kDroplessBound,
                       "room on a device for rows of others, in times of its own; with sizes"});
  row.linear = Linear::kEach;
  return composite(std::move(row));
}

std::vector<OpRow> product_rows() {
  return {product({.op = Op::grouped_dot,
                   .name = "grouped_dot",
                   .attrs = {{"transpose_w", AttrKind::kBool, false, "w is [experts, h, d]"}},
                   .type_rule = grouped_dot_type,
                   .factors = grouped_dot_factors,
                   .gradient = grouped_dot_gradient,
                   .decompose = grouped_dot_parts,
                   .cost = grouped_dot_cost,
                   .doc = "(x[groups, slots, d], w[experts, d, h], sizes i32[groups, experts]): "
                          "each slot's row times its expert's matrix; rows behind all sizes give "
                          "zeros. With a capacity there are no sizes: each expert has as many "
                          "rows.",
                   .distributed_ops = {dropless_product()}}),
          product({.op = Op::grouped_dot_grad_w,
                   .name = "grouped_dot_grad_w",
                   .type_rule = grouped_dot_grad_w_type,
                   .factors = grouped_dot_grad_w_factors,
                   .gradient = grouped_dot_grad_w_gradient,
                   .decompose = grouped_dot_grad_w_parts,
                   .cost = grouped_dot_grad_w_cost,
                   .doc = "(x[groups, slots, d], dy[groups, slots, h], sizes): x^T dy over the "
                          "rows of each expert, [experts, d, h]. Sizes or a capacity as in "
                          "grouped_dot.",
                   .distributed_ops = {dropless_grad_w()}})};
}

OpRow route_row() {
  return composite(
      {.op = Op::moe_route,
       .name = "moe_route",
       .results = 3,
       .attrs = {{"experts", AttrKind::kInt, {}, "how many"},
                 {"capacity", AttrKind::kInt, int64_t{0}, "slots of an expert; 0: dropless"}},
       .type_rule = route_type,
       .factors =
           [](const OpCall& c) { return einsum_factors(c, "gtk -> gs, gtk, ge; whole tkse"); },
       .no_gradient = "its results are indices",
       .decompose = route_parts,
       .cost = per_input<8>,
       .doc = "(expert i32[groups, tokens, k]): slot_token, token_slot, sizes. Pairs take slots in "
              "token order, then choice order; those beyond the capacity, or of no expert, are "
              "dropped."});
}

// An op that moves rows between tokens and the slots of experts.
OpRow slots(OpRow row) {
  row.linear = Linear::kEach;
  row.inputs_min = row.inputs_max = row.op == Op::moe_dispatch ? 3 : 4;
  row.cost = per_result<2>;
  return composite(std::move(row));
}

std::vector<OpRow> slot_rows() {
  return {
      slots(
          {.op = Op::moe_dispatch,
           .name = "moe_dispatch",
           .attrs = {{"k", AttrKind::kInt, {}, "choices of a token"}},
           .type_rule = dispatch_type,
           .factors =
               [](const OpCall& c) { return einsum_factors(c, "gtd, gs, gtk -> gsd; whole tsk"); },
           .gradient = dispatch_gradient,
           .decompose = dispatch_parts,
           .doc = "(x[groups, tokens, dim], slot_token, token_slot): each slot's token, zeros in "
                  "empty "
                  "slots."}),
      slots({.op = Op::moe_combine,
             .name = "moe_combine",
             .type_rule = combine_type,
             .factors =
                 [](const OpCall& c) {
                   return einsum_factors(c, "gsd, gtk, gs, gtk -> gtd; whole tsk");
                 },
             .gradient =
                 [](const GradientCall& g) {
                   Value ct = g.cotangents[0];
                   return bilinear(g, Op::moe_combine_grad_y, {ct, g.inputs[1]},
                                   Op::moe_combine_grad_w, {ct, g.inputs[0]});
                 },
             .decompose = combine_parts,
             .doc = "(y[groups, slots, dim], gate[groups, tokens, k], slot_token, token_slot): "
                    "sums of a "
                    "token's rows weighted by its gates; dropped pairs add nothing."}),
  };
}

std::vector<OpRow> combine_gradient_rows() {
  return {
      slots({.op = Op::moe_combine_grad_y,
             .name = "moe_combine_grad_y",
             .type_rule = combine_grad_y_type,
             .factors =
                 [](const OpCall& c) {
                   return einsum_factors(c, "gtd, gtk, gs, gtk -> gsd; whole tsk");
                 },
             .gradient =
                 [](const GradientCall& g) {
                   Value ct = g.cotangents[0];
                   return bilinear(g, Op::moe_combine, {ct, g.inputs[1]}, Op::moe_combine_grad_w,
                                   {g.inputs[0], ct});
                 },
             .decompose = combine_grad_y_parts,
             .doc = "(dout, gate, slot_token, token_slot): the adjoint of combine's y."}),
      slots({.op = Op::moe_combine_grad_w,
             .name = "moe_combine_grad_w",
             .type_rule = combine_grad_w_type,
             .factors =
                 [](const OpCall& c) {
                   return einsum_factors(c, "gtd, gsd, gs, gtk -> gtk; whole tsk; reduce d");
                 },
             .gradient =
                 [](const GradientCall& g) {
                   Value ct = g.cotangents[0];
                   return bilinear(g, Op::moe_combine, {g.inputs[1], ct}, Op::moe_combine_grad_y,
                                   {g.inputs[0], ct});
                 },
             .decompose = combine_grad_w_parts,
             .doc = "(dout, y, slot_token, token_slot): the adjoint of combine's gate."}),
  };
}

}  // namespace

std::vector<OpRow> moe_rows() {
  std::vector<OpRow> rows = product_rows();
  rows.push_back(route_row());
  for (const auto& more : {slot_rows(), combine_gradient_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

}  // namespace gangway::internal
