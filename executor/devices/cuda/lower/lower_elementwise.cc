#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/lower/to_fused.h"

namespace gangway::cuda {

namespace {

void lower_as_chain(Lowering& call, FusedOp op) {
  FusedProgram program{.code = {{op, call.out().dtype, {0, 1, 2}}},
                       .outputs = {{static_cast<int32_t>(call.inputs()), call.out().dtype}}};
  for (size_t i = 0; i < call.inputs(); ++i) program.inputs.push_back({call.in(i).dtype});
  launch_chain(call, program, 1, call.out().elements(), call.tensors());
}

}  // namespace

// A small op goes to a kernel that takes the op as a number: a source of its own would cost a
// compilation.
void lower_elementwise(Lowering& call) {
  const FusedOp op = to_fused(call.op());
  const Type &x = call.in(0), &y = call.out();
  const int64_t n = y.elements();
  const auto count = value(n);
  const bool is_copy = op == FusedOp::kConvert && x.dtype == y.dtype;
  if (n >= kOwnKernel && !is_copy) return lower_as_chain(call, op);
  if (op == FusedOp::kSelect) {
    return call.launch_flat(cat("select_", size_of(y.dtype)), n,
                            {call.read(0), call.read(1), call.read(2), call.write(0), count});
  }
  if (is_copy) return call.copy(call.read(0), call.write(0));
  if (op == FusedOp::kConvert) {
    return call.launch_flat(cat("change_", to_string(x.dtype), "_", to_string(y.dtype)), n,
                            {call.read(0), call.write(0), count});
  }
  const size_t second = call.inputs() > 1 ? 1 : 0;
  const std::string kernel = x.dtype == DType::kBool   ? std::string("logic")
                             : y.dtype == DType::kBool ? cat("test_", to_string(x.dtype))
                                                       : cat("apply_", to_string(x.dtype));
  call.launch_flat(
      kernel, n,
      {value(static_cast<int32_t>(op)), call.read(0), call.read(second), call.write(0), count});
}

}  // namespace gangway::cuda
