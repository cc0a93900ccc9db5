#include <algorithm>

#include "executor/devices/cuda/lower/lower.h"

namespace gangway::cuda {
namespace {

void lower_grouped(Lowering& call) {
  if (call.out().elements() == 0) return;
  Driver& driver = call.gpu.driver();
  GroupedMatmulDesc desc = grouped_desc(call);
  desc.allow_tf32 = call.numerics.allow_tf32;
  call.library_or(
      driver.prepare(desc), [&] { return OwnOperation::grouped_matmul(driver, desc); },
      call.tensors());
}

// A block for each group; each of its threads has a counter for each expert.
void lower_route(Lowering& call) {
  const Dims& dims = call.in(0).dims;
  const int64_t experts = call.attrs().integer("experts"), choices = dims[1] * dims[2];
  const auto shared = [&](int64_t threads) { return experts * (threads + 1) * 4; };
  int64_t threads = block_threads(choices);
  while (threads > 32 && shared(threads) > call.gpu.info().shared_bytes_max) threads -= 32;
  if (shared(threads) > call.gpu.info().shared_bytes_max) call.refuse("too many experts");
  if (dims[0] == 0) return;
  call.launch("moe_route", {static_cast<uint32_t>(dims[0])}, static_cast<uint32_t>(threads),
              {call.read(0), call.write(0), call.write(1), call.write(2), value(choices),
               value(call.out(0).dims[1]), value(experts), value(call.attrs().integer("capacity"))},
              static_cast<uint32_t>(shared(threads)));
}

}  // namespace

void lower_moe(Lowering& call) {
  const Op op = call.op();
  if (op == Op::grouped_dot || op == Op::grouped_dot_grad_w) return lower_grouped(call);
  if (op == Op::moe_route) return lower_route(call);
  // Rows at input 0; gates, where there are any, at 1; slot_token and token_slot behind.
  const bool gated = op != Op::moe_dispatch;
  const size_t route = gated ? 2 : 1;
  const Dims &slots = call.in(route).dims, &tokens = call.in(route + 1).dims;
  const DType dtype = call.in(0).dtype;
  const DType gate = op == Op::moe_combine_grad_w ? call.out().dtype
                     : gated                      ? call.in(1).dtype
                                                  : dtype;
  if (gate != dtype) call.refuse("gates must have the type of the rows");
  const std::string type = cat("_", to_string(dtype));
  const int64_t dim = call.in(0).dims[2], n = call.out().elements();
  const auto sizes = [&](std::vector<Argument> arguments) {
    for (int64_t size : {tokens[1], tokens[2], slots[1], dim}) arguments.push_back(value(size));
    return arguments;
  };
  if (op == Op::moe_combine_grad_w) {
    return call.launch_rows(
        "moe_gate_grad" + type, n, dim,
        sizes({call.read(0), call.read(1), call.read(route + 1), call.write(0)}));
  }
  const bool combines = op == Op::moe_combine;
  std::vector<Argument> arguments = sizes({call.read(0), call.read(gated ? 1 : 0),
                                           call.read(combines ? route + 1 : route), call.write(0)});
  arguments.push_back(value(n));
  arguments.push_back(value(gated));
  call.launch_flat((combines ? "moe_combine" : "moe_spread") + type, n, std::move(arguments));
}

}  // namespace gangway::cuda
