#include "executor/devices/lower/to_fused.h"

#include <map>

#include "executor/devices/lower/strided.h"
#include "runtime/base/error.h"

namespace gangway {

FusedOp to_fused(Op op) {
  static const std::map<Op, FusedOp> kOps = {
      {Op::neg, FusedOp::kNeg},       {Op::abs, FusedOp::kAbs},
      {Op::sign, FusedOp::kSign},     {Op::exp, FusedOp::kExp},
      {Op::log, FusedOp::kLog},       {Op::log1p, FusedOp::kLog1p},
      {Op::expm1, FusedOp::kExpm1},   {Op::tanh, FusedOp::kTanh},
      {Op::sqrt, FusedOp::kSqrt},     {Op::rsqrt, FusedOp::kRsqrt},
      {Op::erf, FusedOp::kErf},       {Op::logistic, FusedOp::kLogistic},
      {Op::sin, FusedOp::kSin},       {Op::cos, FusedOp::kCos},
      {Op::floor, FusedOp::kFloor},   {Op::is_finite, FusedOp::kIsFinite},
      {Op::not_, FusedOp::kNot},      {Op::add, FusedOp::kAdd},
      {Op::sub, FusedOp::kSub},       {Op::mul, FusedOp::kMul},
      {Op::div, FusedOp::kDiv},       {Op::max, FusedOp::kMax},
      {Op::min, FusedOp::kMin},       {Op::pow, FusedOp::kPow},
      {Op::eq, FusedOp::kEq},         {Op::ne, FusedOp::kNe},
      {Op::lt, FusedOp::kLt},         {Op::le, FusedOp::kLe},
      {Op::gt, FusedOp::kGt},         {Op::ge, FusedOp::kGe},
      {Op::and_, FusedOp::kAnd},      {Op::or_, FusedOp::kOr},
      {Op::select, FusedOp::kSelect}, {Op::convert, FusedOp::kConvert}};
  auto found = kOps.find(op);
  GW_ASSERT(found != kOps.end(), to_string(op), " is not element-wise");
  return found->second;
}

namespace {

class ChainMaker {
 public:
  explicit ChainMaker(const Function& body) : body_(body), parameters_(body.parameters.size()) {
    GW_ASSERT(!body.results.empty(), "a fused chain without results");
    dims_ = body.types[body.results[0]].dims;
    chain_.inner = body.types[body.results[0]].elements();
  }

  FusedChain run() {
    choose_split();
    add_inputs();
    for (NodeId id = 0; id < body_.nodes.size(); ++id) add_code(id);
    for (ValueId result : body_.results) {
      chain_.program.outputs.push_back({at(result), body_.types[result].dtype});
    }
    return std::move(chain_);
  }

 private:
  enum class Spread { kScalar, kRow, kColumn, kFull, kOther };

  Spread spread_of(const Node& node) const {
    if (node.op != Op::broadcast) return Spread::kOther;
    const Type& from = body_.types[node.inputs[0]];
    if (from.elements() == 1) return Spread::kScalar;
    if (from.dims == dims_) return Spread::kFull;
    const std::vector<int64_t>& map = node.attrs.ints("map");
    const auto added = static_cast<int64_t>(dims_.size()) - from.rank();
    bool row = true, column = true;
    for (size_t i = 0; i < map.size(); ++i) {
      if (from.dims[i] != dims_[static_cast<size_t>(map[i])]) return Spread::kOther;
      row &= map[i] == added + static_cast<int64_t>(i);
      column &= map[i] == static_cast<int64_t>(i);
    }
    return row ? Spread::kRow : column ? Spread::kColumn : Spread::kOther;
  }

  bool of_parameter(const Node& node) const {
    return is_view(node.op) && node.inputs[0] < parameters_;
  }

  // The first row or column decides where [outer, inner] is cut.
  void choose_split() {
    const int64_t total = chain_.inner;
    for (const Node& node : body_.nodes) {
      if (!of_parameter(node)) continue;
      const int64_t size = body_.types[node.inputs[0]].elements();
      const Spread spread = spread_of(node);
      if (spread != Spread::kRow && spread != Spread::kColumn) continue;
      chain_.inner = spread == Spread::kRow ? size : total / std::max<int64_t>(size, 1);
      chain_.outer = total / std::max<int64_t>(chain_.inner, 1);
      return;
    }
  }

  void add_inputs() {
    std::vector<bool> direct(parameters_, false);
    for (const Node& node : body_.nodes) {
      if (is_view(node.op)) continue;
      for (ValueId input : node.inputs) {
        if (input < parameters_) direct[input] = true;
      }
    }
    for (ValueId p = 0; p < parameters_; ++p) {
      if (direct[p]) inside_[p] = add_input(p, FusedInput::kFull, kNone);
    }
    for (NodeId id = 0; id < body_.nodes.size(); ++id) {
      const Node& node = body_.nodes[id];
      if (of_parameter(node)) inside_[node.first_result] = add_spread(id, node);
    }
  }

  int32_t add_spread(NodeId id, const Node& node) {
    const ValueId p = node.inputs[0];
    const int64_t size = body_.types[p].elements();
    switch (spread_of(node)) {
      case Spread::kScalar: return add_input(p, FusedInput::kScalar, kNone);
      case Spread::kFull: return add_input(p, FusedInput::kFull, kNone);
      case Spread::kRow:
        if (size == chain_.inner) return add_input(p, FusedInput::kInner, kNone);
        break;
      case Spread::kColumn:
        if (size == chain_.outer) return add_input(p, FusedInput::kOuter, kNone);
        break;
      case Spread::kOther: break;
    }
    return add_input(p, FusedInput::kFull, id);
  }

  int32_t add_input(ValueId parameter, FusedInput::Kind kind, NodeId view) {
    chain_.program.inputs.push_back({body_.types[parameter].dtype, kind});
    chain_.inputs.push_back({parameter, view});
    return static_cast<int32_t>(chain_.inputs.size()) - 1;
  }

  void add_code(NodeId id) {
    const Node& node = body_.nodes[id];
    if (of_parameter(node)) return;
    // The result of broadcasting or reshaping a constant is the same everywhere.
    if (node.op == Op::broadcast || node.op == Op::reshape || node.op == Op::barrier ||
        node.op == Op::stop_gradient) {
      inside_[node.first_result] = at(node.inputs[0]);
      return;
    }
    FusedInstruction code{.dtype = body_.types[node.first_result].dtype};
    if (node.op == Op::constant) {
      code.op = FusedOp::kConstant;
      code.immediate = node.attrs.real("value");
    } else {
      code.op = to_fused(node.op);
      for (size_t i = 0; i < node.inputs.size(); ++i) code.in[i] = at(node.inputs[i]);
    }
    chain_.program.code.push_back(code);
    inside_[node.first_result] = static_cast<int32_t>(chain_.inputs.size()) +
                                 static_cast<int32_t>(chain_.program.code.size()) - 1;
  }

  int32_t at(ValueId value) const {
    auto found = inside_.find(value);
    GW_ASSERT(found != inside_.end(), "fused chain uses %", value, " before it is made");
    return found->second;
  }

  const Function& body_;
  const ValueId parameters_;
  Dims dims_;
  FusedChain chain_;
  std::map<ValueId, int32_t> inside_;
};

}  // namespace

FusedChain to_fused(const Function& body) { return ChainMaker(body).run(); }

}  // namespace gangway
