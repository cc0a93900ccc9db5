#include <memory>

#include "executor/devices/cpu/kernel.h"
#include "executor/devices/lower/to_fused.h"
#include "executor/kernels/fused.h"

namespace gangway::cpu {

Lowered lower_elementwise(const LowerCall& call) {
  FusedProgram program;
  FusedInstruction code{.op = to_fused(call.node().op), .dtype = call.out().dtype};
  for (size_t i = 0; i < call.inputs(); ++i) {
    program.inputs.push_back({call.in(i).dtype, FusedInput::kFull});
    code.in[i] = static_cast<int32_t>(i);
  }
  program.code = {code};
  program.outputs = {{static_cast<int32_t>(call.inputs()), call.out().dtype}};
  auto fused = std::make_shared<const Fused>(program);
  return {[fused, n = call.out().elements(), inputs = call.inputs()](const KernelArgs& args) {
    const void* in[3];
    for (size_t i = 0; i < inputs; ++i) in[i] = args.in(i);
    void* out[1] = {args.out(0)};
    fused->run(args.par, 1, n, std::span(in, inputs), out);
  }};
}

}  // namespace gangway::cpu
