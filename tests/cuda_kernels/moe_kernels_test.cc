// Routing of tokens to experts, and moving rows there and back, on the emulated device.
#include "tests/cuda_kernels/op_kernel.h"

namespace gangway::emulated {
namespace {

TEST(MoeKernels, Route) {
  check_op(Op::moe_route, [](OpRun& run) {
    const Dims& dims = run.in_type(0).dims;
    const int64_t choices = dims[1] * dims[2], slots = run.out_type(0).dims[1];
    const int64_t experts = run.attrs().integer("experts");
    const int64_t capacity = run.attrs().integer("capacity");
    constexpr uint32_t kThreads = 64;
    const auto shared = static_cast<uint32_t>(experts * (kThreads + 1) * 4);
    run.launch_shared("moe_route", dims[0], kThreads, shared,
                      {run.in(0), run.out(0), run.out(1), run.out(2)},
                      {&choices, &slots, &experts, &capacity});
  });
}

// Takes the sizes of a route from the types of slot_token and token_slot.
struct Route {
  int64_t groups, tokens, k, slots;
};
Route route_of(const Type& slot_token, const Type& token_slot) {
  return {token_slot.dims[0], token_slot.dims[1], token_slot.dims[2], slot_token.dims[1]};
}

TEST(MoeKernels, Dispatch) {
  check_op(Op::moe_dispatch, [](OpRun& run) {
    const Route r = route_of(run.in_type(1), run.in_type(2));
    const int64_t dim = run.columns(), n = r.groups * r.slots * dim;
    const bool with_gate = false;
    run.launch("moe_spread" + suffix(run.in_type(0).dtype), n == 0 ? 0 : 2, 32,
               {run.in(0), Argument{}, run.in(1), run.out()}, r.tokens, r.k, r.slots, dim, n,
               with_gate);
  });
}

TEST(MoeKernels, Combine) {
  check_op(Op::moe_combine, [](OpRun& run) {
    const Route r = route_of(run.in_type(2), run.in_type(3));
    const int64_t dim = run.columns(), n = r.groups * r.tokens * dim;
    const bool with_gate = true;
    run.launch("moe_combine" + suffix(run.in_type(0).dtype), n == 0 ? 0 : 2, 32,
               {run.in(0), run.in(1), run.in(3), run.out()}, r.tokens, r.k, r.slots, dim, n,
               with_gate);
  });
}

TEST(MoeKernels, CombineGradOfRows) {
  check_op(Op::moe_combine_grad_y, [](OpRun& run) {
    const Route r = route_of(run.in_type(2), run.in_type(3));
    const int64_t dim = run.columns(), n = r.groups * r.slots * dim;
    const bool with_gate = true;
    run.launch("moe_spread" + suffix(run.in_type(0).dtype), n == 0 ? 0 : 2, 32,
               {run.in(0), run.in(1), run.in(2), run.out()}, r.tokens, r.k, r.slots, dim, n,
               with_gate);
  });
}

TEST(MoeKernels, CombineGradOfGates) {
  check_op(Op::moe_combine_grad_w, [](OpRun& run) {
    const Route r = route_of(run.in_type(2), run.in_type(3));
    run.launch("moe_gate_grad" + suffix(run.in_type(0).dtype), r.groups * r.tokens * r.k, 32,
               {run.in(0), run.in(1), run.in(3), run.out()}, r.tokens, r.k, r.slots, run.columns());
  });
}

}  // namespace
}  // namespace gangway::emulated
