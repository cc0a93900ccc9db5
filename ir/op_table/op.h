// The op table: one row per op says every fact about it once, as data.
//
// Legal placements, local shapes, verifier texts and the op reference (docs/ir.md) derive from the
// row; a test walks the table, so an op without a type rule, a gradient (or a declared none) and a
// reference cannot exist. Rows live in ir/op_table/rows/<family>.cc. To add an op: append to
// GW_OPS, write its row, its reference (tests/interpret) and its test case (tests/op_table).
//
// Factors follow Shardy's sharding rules (openxla/shardy, docs/propagation.md), for example
// `dot: ik, kj -> ij; reduce k`.
// Threads: the table is immutable; safe anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/types/attrs.h"
#include "ir/types/type.h"

namespace gangway {

// Every op, in the order of the wire form: append only.
// clang-format off
#define GW_OPS(X)                                                                            \
  X(neg) X(abs) X(sign) X(exp) X(log) X(log1p) X(tanh) X(sqrt) X(rsqrt) X(erf) X(logistic)   \
  X(sin) X(cos) X(floor) X(is_finite) X(not_) X(add) X(sub) X(mul) X(div) X(max) X(min)      \
  X(pow) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(and_) X(or_) X(select) X(convert) X(constant) \
  X(iota) X(broadcast) X(reshape) X(transpose) X(slice) X(concat) X(pad) X(dynamic_slice)    \
  X(dynamic_update) X(reduce_sum) X(reduce_max) X(reduce_min) X(argmax) X(cumsum) X(dot)     \
  X(take) X(scatter_add) X(top_k) X(sort) X(random_uniform) X(random_normal)                 \
  X(stop_gradient) X(barrier) X(timed) X(custom_call) X(softmax) X(softmax_grad) X(rms_norm) \
  X(rms_norm_grad) X(layer_norm) X(layer_norm_grad) X(cross_entropy) X(cross_entropy_grad)   \
  X(attention) X(attention_grad) X(attention_decode) X(grouped_dot) X(grouped_dot_grad_w)    \
  X(moe_route) X(moe_dispatch) X(moe_combine) X(moe_combine_grad_y) X(moe_combine_grad_w)    \
  X(sum_squares) X(adamw) X(all_reduce) X(shard_slice) X(fusion) X(expm1) X(all_gather)      \
  X(reduce_scatter) X(all_to_all) X(ragged_all_to_all) X(permute) X(collective_broadcast)    \
  X(axis_index) X(keep_first) X(constrain) X(scan) X(call) X(table)                          \
  X(cross_entropy_and_grad) X(packed_attention) X(packed_attention_grad)
// clang-format on

enum class Op : uint16_t {
#define GW_OP_ENUM(name) name,
  GW_OPS(GW_OP_ENUM)
#undef GW_OP_ENUM
};

#define GW_OP_COUNT(name) +1
inline constexpr int kOpCount = 0 GW_OPS(GW_OP_COUNT);
#undef GW_OP_COUNT

enum class OpFamily : uint8_t {
  kElementwise,  // From the elements of one or more operands that lie where the result's does.
  kShape,
  kReduce,
  kDot,
  kIndex,
  kRandom,
  kControl,
  kComposite,
  kCollective
};

struct Function;

// A rule's view of a node.
struct OpCall {
  Op op;
  std::span<const Type> inputs;
  const Attrs& attrs;
  const Function* body = nullptr;  // fusion, scan and call only.
};

// One index of the op's iteration space, and where it appears. A tensor that lacks a cut factor is
// replicated, except that a result that lacks a cut kReduce factor is partial.
enum class FactorKind : uint8_t {
  kPass,    // May be cut: each device computes its part of the results.
  kReduce,  // May be cut: each device computes a term of the results that lack it.
  kWhole,   // May not be cut: the op needs all of it.
};
// If a dimension is longer than `size`, the factor is its outer part (heads of a model dimension, a
// reshape that merges): cut into n parts, the dimension has n equal parts, and n divides `size`.
struct Factor {
  char name = '?';  // For print: i, j, k ...
  FactorKind kind = FactorKind::kPass;
  int64_t size = 1;
  std::vector<int> input_dims;   // For each input its dimension with this factor, or -1.
  std::vector<int> result_dims;  // For each result, or -1.
  // Name of the row's distributed op that a cut of this factor needs because running the op on
  // parts is not enough; parts are equal then. Empty: the op runs on its parts.
  std::string_view distributed_op = {};
};
using Factors = std::vector<Factor>;

// In which inputs an op is linear, so that partial terms may pass through it instead of being
// summed before it.
enum class Linear : uint8_t {
  kNo,
  kAll,  // Jointly in all float inputs: add, sub, neg, reshape, reduce_sum, convert between floats.
  kEach,   // In each float input alone, the others replicated: mul, dot. One input may be partial.
  kFirst,  // In the first input alone: div, take (of the table).
};

// How an attribute of one device's part follows from that of the whole (local_attrs).
enum class AttrRole : uint8_t {
  kPlain,        // The same.
  kResultSizes,  // Sizes of the first result: cut as its dimensions are.
  kHeads,        // The size of factor `h`.
  kWholeSizes,   // Empty; for a part, the first result's sizes before it was cut,
  kPlacements,   // and its placements, in the form that `constrain` takes.
};
struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  std::optional<AttrValue> default_value;  // Without one the attribute must be given.
  std::string_view doc;
  AttrRole role = AttrRole::kPlain;
};

struct Cost {
  double flops = 0;
  double bytes = 0;
};

class Builder;
struct DistributedCall;  // ir/op_table/distributed_op.h
struct GradientCall;     // ir/build/gradient.h
struct DecomposeCall;    // ir/build/gradient.h
class Value;

// A device's work for an op that is cut along a factor with this distributed op: local ops and
// collectives (ir/op_table/distributed_op.h).
struct DistributedOp {
  std::string_view name;  // Name by which factors refer to it: "vocabulary_parallel".
  // The local results, each cut as its dimension with the factor is, else whole (kPass) or a term
  // of the sum (kReduce). Null for products of dropless experts: their rows stay with the experts
  // from node to node (ir/transforms/conversions/expert_rows.h).
  std::vector<Value> (*build)(const DistributedCall&) = nullptr;
  // The bytes that one of `members` devices sends if nothing else is cut; conversions of operands
  // and results are not included.
  double (*sent_bytes)(const OpCall&, int64_t members) = nullptr;
  std::string_view doc;  // One line for the op reference.
};

struct OpRow {
  Op op;
  // Name in the text form: "reduce_sum"; `not_`, `and_`, `or_` print as not, and, or.
  std::string_view name;
  OpFamily family;
  int inputs_min = 1;
  int inputs_max = 1;  // -1: no bound.
  int results = 1;     // -1: as many as the type rule gives (those with a body).
  std::vector<AttrSpec> attrs;
  // Result types; throws kInvalid naming the op, what differs and both shapes. Counts and attribute
  // kinds are already checked.
  std::vector<Type> (*type_rule)(const OpCall&) = nullptr;
  Factors (*factors)(const OpCall&) = nullptr;
  Linear linear = Linear::kNo;
  // Zeros behind the inputs become zeros behind the results: if each dimension that has a factor
  // ends in the same number of zeros (false, for bool), so does each dimension of a result that has
  // it, and all other elements are the same as without them. may_pad() says for which factors of a
  // call this holds. If it depends on attributes, `keeps_zero_when` decides by them.
  bool keeps_zero = false;
  bool (*keeps_zero_when)(const OpCall&) = nullptr;
  // Number of first operands that a device may overwrite with the results of the same numbers,
  // since element i of each result needs element i of these operands only. They alone decide how
  // the op is cut: the other operands follow. The operand behind them is the gradient. 0: it writes
  // no operand in place.
  int in_place = 0;
  // On a device the result may share its operand's buffer: the same bytes in the same order.
  bool shares_buffer = false;
  // Cheap enough to be computed once more for a reader that wants it cut differently.
  bool made_again = false;
  // It runs where it stands, once for each node: it is not merged with an equal node, nor moved.
  // The same goes for ops in which devices meet (stays_in_place()).
  bool keeps_its_place = false;
  // Devices meet in it: all members along its axes take part at the same position of their
  // functions. It is a step of its own on every device, and a section may end behind it.
  bool meets = false;
  // It runs no kernel, but keeps its device busy for the time that its attributes say, in
  // nanoseconds. Null: it takes as long as its kernel.
  int64_t (*busy_ns)(const Attrs&) = nullptr;
  // It is a loop: it runs its body once for each iteration, with operands and results divided as a
  // ScanLayout says (ir/graph/bodies.h). Other ops run theirs once.
  bool repeats_body = false;
  // Cotangents of the inputs (empty Value: none), built with ops; or null and `no_gradient` says
  // why.
  std::vector<Value> (*gradient)(const GradientCall&) = nullptr;
  std::string_view no_gradient = {};
  // The same results from smaller ops; composites only.
  std::vector<Value> (*decompose)(const DecomposeCall&) = nullptr;
  Cost (*cost)(const OpCall&) = nullptr;
  std::string_view doc;                             // One line for the op reference.
  std::vector<DistributedOp> distributed_ops = {};  // The distributed ops that its factors name.
};

const OpRow& row(Op op);
// Whether nodes of the op are neither merged nor moved.
inline bool stays_in_place(Op op) { return row(op).keeps_its_place || row(op).meets; }
std::optional<Op> parse_op(std::string_view name);
inline std::string_view to_string(Op op) { return row(op).name; }

// Sets the attributes with a default that are missing.
void fill_defaults(Op op, Attrs& attrs);

// Checks counts and attributes against the row (filling defaults in `attrs`), then infers the
// result types. Throws kInvalid with a message that begins with the op's name.
std::vector<Type> infer_types(Op op, std::span<const Type> inputs, Attrs& attrs,
                              const Function* body = nullptr);

// Whether the op may run on parts that end in zero padding along this factor of the call: a cut
// that is not even leaves such parts. False if no input has the factor (new dimensions of a
// broadcast are filled), and if the factor is only a part of a dimension.
bool may_pad(const OpCall& call, const Factor& factor);

// The attributes of the local op when factor f is cut in parts[f] parts; sizes are those of a part
// that may end in padding, rounded up.
Attrs local_attrs(const OpCall& call, const Factors& factors, std::span<const int64_t> parts);

// For an op whose results depend on which part of the whole they are: sets the attributes of
// `local` that name the part, given that the call's first result is cut by `placements`. Changes
// nothing for all other ops.
void say_part(const OpCall& call, const std::string& placements, Attrs& local);

// The rows of each family: ir/op_table/rows/<family>.cc.
namespace internal {
std::vector<OpRow> elementwise_rows();
std::vector<OpRow> shape_rows();
std::vector<OpRow> reduce_rows();
std::vector<OpRow> dot_rows();
std::vector<OpRow> index_rows();
std::vector<OpRow> random_rows();
std::vector<OpRow> control_rows();
std::vector<OpRow> body_rows();  // scan, call
std::vector<OpRow> norm_rows();  // softmax, norms, cross-entropy
std::vector<OpRow> attention_rows();
std::vector<OpRow> packed_attention_rows();
std::vector<OpRow> moe_rows();         // grouped dot, routing, dispatch, combine
std::vector<OpRow> optimizer_rows();   // sum_squares, adamw
std::vector<OpRow> collective_rows();  // On values that lie on several devices, or by place.
std::vector<OpRow> exchange_rows();    // Ops that move parts between devices.
}  // namespace internal

}  // namespace gangway
