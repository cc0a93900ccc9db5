#include "executor/kernels/fused.h"

#include <algorithm>

#include "executor/kernels/simd/fused_plan.h"
#include "executor/kernels/simd/simd.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

using simd::FusedClass;
using simd::FusedPlan;
using simd::FusedStep;

FusedClass class_of(DType dtype) {
  if (dtype == DType::kF64) return FusedClass::kDouble;
  return is_float(dtype) ? FusedClass::kFloat : FusedClass::kInt;
}

int arity(FusedOp op) {
  if (op == FusedOp::kConstant) return 0;
  if (op <= FusedOp::kConvert) return 1;
  return op == FusedOp::kSelect ? 3 : 2;
}

bool is_comparison(FusedOp op) { return op >= FusedOp::kEq && op <= FusedOp::kGe; }
bool float_only(FusedOp op) { return op >= FusedOp::kExp && op <= FusedOp::kCos; }

void check_instruction(const FusedInstruction& code, int index, const std::vector<DType>& types) {
  for (int i = 0; i < arity(code.op); ++i) {
    GW_REQUIRE(code.in[i] >= 0 && code.in[i] < static_cast<int32_t>(types.size()),
               "fusion: instruction ", index, " reads value ", code.in[i], ": expected one of the ",
               types.size(), " before it");
  }
  if (code.op == FusedOp::kConstant || code.op == FusedOp::kConvert) return;
  const int operands = arity(code.op);
  const DType from = types[static_cast<size_t>(code.in[operands - 1])];
  const bool choice = code.op == FusedOp::kSelect;
  bool good = choice ? types[static_cast<size_t>(code.in[0])] == DType::kBool : true;
  for (int i = choice ? 1 : 0; i < operands; ++i) {
    good = good && class_of(types[static_cast<size_t>(code.in[i])]) == class_of(from);
  }
  const bool logic =
      code.op == FusedOp::kNot || code.op == FusedOp::kAnd || code.op == FusedOp::kOr;
  if (logic) good = good && from == DType::kBool;
  if (float_only(code.op)) good = good && is_float(from);
  const bool to_bool = is_comparison(code.op) || code.op == FusedOp::kIsFinite || logic;
  good = good && (to_bool ? code.dtype == DType::kBool : class_of(code.dtype) == class_of(from));
  GW_REQUIRE(good, "fusion: instruction ", index, " has types that do not fit its op ",
             static_cast<int>(code.op), ": operand ", to_string(from), ", result ",
             to_string(code.dtype));
}

// Places values in slots: a slot is free again behind the last reader of its value.
class Slots {
 public:
  int32_t take() {
    if (free_.empty()) return count_++;
    const int32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give(int32_t slot) { free_.push_back(slot); }
  int32_t count() const { return count_; }

 private:
  std::vector<int32_t> free_;
  int32_t count_ = 0;
};

constexpr int32_t kForever = INT32_MAX;

// The last instruction that reads each value; kForever for outputs and for values that are computed
// once for all units.
std::vector<int32_t> last_uses(const FusedProgram& program) {
  const size_t inputs = program.inputs.size();
  std::vector<int32_t> last(inputs + program.code.size(), -1);
  for (size_t i = 0; i < program.code.size(); ++i) {
    for (int j = 0; j < arity(program.code[i].op); ++j) {
      last[static_cast<size_t>(program.code[i].in[j])] = static_cast<int32_t>(i);
    }
  }
  for (size_t i = 0; i < program.code.size(); ++i) {
    if (program.code[i].op == FusedOp::kConstant) last[inputs + i] = kForever;
  }
  for (size_t i = 0; i < inputs; ++i) {
    const auto kind = program.inputs[i].kind;
    if (kind == FusedInput::kScalar || kind == FusedInput::kInner) last[i] = kForever;
  }
  for (const FusedOutput& out : program.outputs) last[static_cast<size_t>(out.value)] = kForever;
  return last;
}

std::vector<DType> checked_types(const FusedProgram& program) {
  std::vector<DType> types;
  types.reserve(program.inputs.size() + program.code.size());
  for (const FusedInput& input : program.inputs) types.push_back(input.dtype);
  for (size_t i = 0; i < program.code.size(); ++i) {
    check_instruction(program.code[i], static_cast<int>(i), types);
    types.push_back(program.code[i].dtype);
  }
  GW_REQUIRE(types.size() <= simd::kFusedValuesMax, "fusion: too many values: expected at most ",
             simd::kFusedValuesMax, ", got ", types.size(), "; cut the chain");
  for (const FusedOutput& out : program.outputs) {
    const bool known = out.value >= 0 && out.value < static_cast<int32_t>(types.size());
    GW_REQUIRE(known, "fusion: an output names value ", out.value, ": expected one of ",
               types.size());
    const DType type = types[static_cast<size_t>(out.value)];
    GW_REQUIRE(type == out.dtype || (class_of(type) == FusedClass::kFloat &&
                                     class_of(out.dtype) == FusedClass::kFloat),
               "fusion: an output's type differs from its value's: ", to_string(out.dtype), " of ",
               to_string(type));
  }
  return types;
}

FusedStep step_of(const FusedInstruction& code, const std::vector<DType>& types, int32_t value) {
  const int operands = arity(code.op);
  const DType from = operands == 0 ? code.dtype : types[static_cast<size_t>(code.in[operands - 1])];
  FusedStep step{code.op, class_of(from), class_of(code.dtype), code.dtype, {}, value,
                 0,       code.immediate};
  for (int i = 0; i < 3; ++i) step.in[i] = code.in[i < operands ? i : 0];
  if (operands == 0) step.in[0] = step.in[1] = step.in[2] = 0;
  return step;
}

int64_t chunk_for(int32_t slots, int64_t element) {
  constexpr int64_t kChunkMax = 2048;
  const int64_t room = simd::kFusedSlotBytes / std::max(slots, 1) - simd::kFusedQuantum;
  const int64_t elements = room / element / simd::kFusedQuantum * simd::kFusedQuantum;
  GW_REQUIRE(elements >= simd::kFusedQuantum, "fusion: too many values live at once: ", slots,
             "; cut the chain");
  return std::min(elements, kChunkMax);
}

}  // namespace

Fused::Fused(const FusedProgram& program) {
  const std::vector<DType> types = checked_types(program);
  const std::vector<int32_t> last = last_uses(program);
  auto plan = std::make_unique<FusedPlan>();
  const auto inputs = static_cast<int32_t>(program.inputs.size());
  std::vector<int32_t> slot_of(types.size(), 0);
  Slots slots;

  for (int32_t i = 0; i < inputs; ++i) {
    const FusedInput& input = program.inputs[static_cast<size_t>(i)];
    plan->rows = plan->rows || input.kind == FusedInput::kInner || input.kind == FusedInput::kOuter;
    slot_of[static_cast<size_t>(i)] = slots.take();
    plan->loads.push_back({input.dtype, input.kind, i, slot_of[static_cast<size_t>(i)]});
  }
  // Constants are filled before the first unit: they take their slots before any is reused.
  for (size_t c = 0; c < program.code.size(); ++c) {
    if (program.code[c].op != FusedOp::kConstant) continue;
    FusedStep step = step_of(program.code[c], types, inputs + static_cast<int32_t>(c));
    step.slot = slots.take();
    plan->constants.push_back(step);
  }
  for (size_t c = 0; c < program.code.size(); ++c) {
    const FusedInstruction& code = program.code[c];
    if (code.op == FusedOp::kConstant) continue;
    FusedStep step = step_of(code, types, inputs + static_cast<int32_t>(c));
    step.slot = slots.take();  // Before its operands' slots are given back: a step never writes on
                               // what it reads.
    slot_of[static_cast<size_t>(step.value)] = step.slot;
    for (int j = 0; j < arity(code.op); ++j) {
      bool again = false;
      for (int i = 0; i < j; ++i) again = again || code.in[i] == code.in[j];
      const auto operand = static_cast<size_t>(code.in[j]);
      if (!again && last[operand] == static_cast<int32_t>(c)) slots.give(slot_of[operand]);
    }
    if (last[static_cast<size_t>(step.value)] == -1) slots.give(step.slot);  // Nobody reads it.
    plan->steps.push_back(step);
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const FusedOutput& out = program.outputs[i];
    plan->stores.push_back({out.dtype, out.value, static_cast<int32_t>(i),
                            types[static_cast<size_t>(out.value)] == out.dtype});
  }
  const bool doubles = std::find(types.begin(), types.end(), DType::kF64) != types.end();
  const int64_t element = doubles ? 8 : 4;
  plan->chunk = chunk_for(slots.count(), element);
  plan->slot_bytes = plan->chunk * element + simd::kFusedQuantum;
  plan_ = std::move(plan);
}

Fused::~Fused() = default;
Fused::Fused(Fused&&) noexcept = default;
Fused& Fused::operator=(Fused&&) noexcept = default;

void Fused::run(Parallel& par, int64_t outer, int64_t inner, std::span<const void* const> inputs,
                std::span<void* const> outputs) const {
  if (outer == 0 || inner == 0) return;
  const FusedPlan& plan = *plan_;
  simd::FusedSpace space{outer, inner, 1, inner, 1};
  if (!plan.rows) space = {1, outer * inner, 1, outer * inner, 1};
  if (space.inner > plan.chunk) {
    space.unit_cols = plan.chunk;
    space.units_across = ceil_div(space.inner, plan.chunk);
  } else {
    space.unit_rows = std::min(space.outer, plan.chunk / space.inner);
  }
  space.native = has_native_bf16(par.isa());
  const int64_t units = ceil_div(space.outer, space.unit_rows) * space.units_across;
  const int64_t parts = std::min<int64_t>(par.threads(), units);
  par.for_each_chunk(parts, [&](int64_t p) {
    par.simd().fused_units(plan, space, inputs.data(), outputs.data(), units * p / parts,
                           units * (p + 1) / parts);
  });
}

}  // namespace gangway
