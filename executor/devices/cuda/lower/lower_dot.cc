#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/dot_plan.h"

namespace gangway::cuda {

void lower_dot(Lowering& call) {
  const DotPlan plan = plan_dot(call.attrs(), call.in(0), call.in(1), call.out().dtype);
  const int64_t results = call.out().elements();
  if (results == 0) return;
  if (plan.desc.k == 0) return call.fill(call.out().dtype, 0, call.write(0), results);
  const auto side = [&](size_t input, const std::optional<StridedCopy>& move) {
    if (!move) return call.read(input);
    const Argument moved = call.scratch(call.in(input).bytes());
    call.move(*move, call.read(input), moved);
    return Lowering::as(moved, AccessKind::kRead);
  };
  const Argument a = side(0, plan.move_a), b = side(1, plan.move_b);
  call.library(call.gpu.driver().prepare(plan.desc, {}), {a, b, call.write(0)});
}

}  // namespace gangway::cuda
