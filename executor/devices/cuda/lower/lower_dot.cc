#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/lower/dot_plan.h"

namespace gangway::cuda {
namespace {

// An operand as the product reads it.
Argument side(Lowering& call, size_t input, const std::optional<StridedCopy>& move) {
  if (!move) return call.read(input);
  const Argument moved = call.scratch(call.in(input).bytes());
  call.move(*move, call.read(input), moved);
  return Lowering::as(moved, AccessKind::kRead);
}

}  // namespace

bool lower_product(Lowering& call, size_t a, size_t b, DType out, Argument to,
                   const Epilogue& epilogue, const std::vector<Argument>& more) {
  DotPlan plan = plan_dot(call.attrs(), call.in(a), call.in(b), out);
  plan.desc.allow_tf32 = call.numerics.allow_tf32;
  const bool plain = more.empty() && epilogue.activation == Activation::kNone;
  if (plan.desc.k == 0) {
    if (plain) call.fill(out, 0, to, plan.desc.batch * plan.desc.m * plan.desc.n);
    return plain;
  }
  Result<Prepared> prepared = call.gpu.driver().prepare(plan.desc, epilogue);
  if (!plain && !prepared.ok()) return false;
  std::vector<Argument> tensors = {side(call, a, plan.move_a), side(call, b, plan.move_b), to};
  tensors.insert(tensors.end(), more.begin(), more.end());
  call.library(std::move(prepared), std::move(tensors));
  return true;
}

void lower_dot(Lowering& call) {
  if (call.out().elements() == 0) return;
  lower_product(call, 0, 1, call.out().dtype, call.write(0), {}, {});
}

}  // namespace gangway::cuda
