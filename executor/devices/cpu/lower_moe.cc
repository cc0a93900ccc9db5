#include <memory>

#include "executor/devices/cpu/kernel.h"
#include "executor/kernels/grouped_matmul.h"
#include "executor/kernels/moe.h"
#include "runtime/base/error.h"

namespace gangway::cpu {
namespace {

const int32_t* indices(const KernelArgs& args, size_t i) {
  return static_cast<const int32_t*>(args.in(i));
}

Lowered lower_grouped(const LowerCall& call) {
  const GroupedMatmulDesc desc = grouped_desc(call);
  auto grouped = std::make_shared<const GroupedMatmul>(desc);
  return {[grouped, by_sizes = desc.capacity == 0](const KernelArgs& args) {
            grouped->run(args.par, args.in(0), args.in(1), by_sizes ? indices(args, 2) : nullptr,
                         args.out(0), args.scratch_data());
          },
          static_cast<int64_t>(grouped->scratch_bytes(call.threads))};
}

Lowered lower_route(const LowerCall& call) {
  const Dims& dims = call.in(0).dims;
  const RouteShape shape{.groups = dims[0],
                         .tokens = dims[1],
                         .k = dims[2],
                         .experts = call.attrs().integer("experts"),
                         .capacity = call.attrs().integer("capacity")};
  return {[shape](const KernelArgs& args) {
    moe_route(args.par, shape, indices(args, 0),
              {static_cast<int32_t*>(args.out(0)), static_cast<int32_t*>(args.out(1)),
               static_cast<int32_t*>(args.out(2))});
  }};
}

// Rows are input 0; slot_token and token_slot are inputs `route` and `route + 1`.
MoeShape shape_of(const LowerCall& call, size_t route) {
  const Dims &slots = call.in(route).dims, &tokens = call.in(route + 1).dims;
  return {.dtype = call.in(0).dtype,
          .gate = route > 1 ? call.in(1).dtype : call.in(0).dtype,
          .groups = tokens[0],
          .tokens = tokens[1],
          .k = tokens[2],
          .slots = slots[1],
          .dim = call.in(0).dims[2]};
}

}  // namespace

Lowered lower_moe(const LowerCall& call) {
  const Op op = call.node().op;
  if (op == Op::grouped_dot || op == Op::grouped_dot_grad_w) return lower_grouped(call);
  if (op == Op::moe_route) return lower_route(call);
  if (op == Op::moe_dispatch) {
    return {[shape = shape_of(call, 1)](const KernelArgs& args) {
      moe_dispatch(args.par, shape, args.in(0), indices(args, 1), args.out(0));
    }};
  }
  MoeShape shape = shape_of(call, 2);
  if (op == Op::moe_combine) {
    return {[shape](const KernelArgs& args) {
      moe_combine(args.par, shape, args.in(0), args.in(1), indices(args, 3), args.out(0));
    }};
  }
  if (op == Op::moe_combine_grad_y) {
    return {[shape](const KernelArgs& args) {
      moe_combine_grad_rows(args.par, shape, args.in(0), args.in(1), indices(args, 2), args.out(0));
    }};
  }
  GW_ASSERT(op == Op::moe_combine_grad_w);
  shape.gate = call.out().dtype;
  return {[shape](const KernelArgs& args) {
    moe_combine_grad_gate(args.par, shape, args.in(0), args.in(1), indices(args, 3), args.out(0));
  }};
}

}  // namespace gangway::cpu
