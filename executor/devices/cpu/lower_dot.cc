#include <memory>

#include "executor/devices/cpu/kernel.h"
#include "executor/devices/lower/dot_plan.h"
#include "executor/kernels/matmul.h"
#include "executor/kernels/move.h"

namespace gangway::cpu {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Lowered lower_dot(const LowerCall& call) {
  const DotPlan plan = plan_dot(call.attrs(), call.in(0), call.in(1), call.out().dtype);
  auto matmul = std::make_shared<const Matmul>(plan.desc);
  const int64_t moved_a = plan.move_a ? aligned(call.in(0).bytes()) : 0;
  const int64_t moved_b = plan.move_b ? aligned(call.in(1).bytes()) : 0;
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
