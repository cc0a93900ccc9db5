#include <memory>

#include "executor/devices/cpu/kernel.h"
#include "executor/devices/lower/dot_plan.h"
#include "executor/kernels/matmul.h"
#include "executor/kernels/move.h"
#include "runtime/base/align.h"

namespace gangway::cpu {

Lowered lower_dot(const LowerCall& call) {
  const DotPlan plan = plan_dot(call.attrs(), call.in(0), call.in(1), call.out().dtype);
  auto matmul = std::make_shared<const Matmul>(plan.desc);
  const int64_t moved_a = plan.move_a ? align_up(call.in(0).bytes(), kScratchAlignment) : 0;
  const int64_t moved_b = plan.move_b ? align_up(call.in(1).bytes(), kScratchAlignment) : 0;
  auto kernel = [matmul, plan, moved_a, moved_b](const KernelArgs& args) {
    const void *x = args.in(0), *y = args.in(1);
    auto* scratch = static_cast<std::byte*>(args.scratch_data());
    if (plan.move_a) {
      strided_copy(args.par, *plan.move_a, x, scratch);
      x = scratch;
    }
    if (plan.move_b) {
      strided_copy(args.par, *plan.move_b, y, scratch + moved_a);
      y = scratch + moved_a;
    }
    matmul->run(args.par, x, y, args.out(0), scratch + moved_a + moved_b);
  };
  return {std::move(kernel),
          moved_a + moved_b + static_cast<int64_t>(matmul->scratch_bytes(call.threads))};
}

}  // namespace gangway::cpu
