#include <memory>

#include "executor/devices/cpu/kernel.h"
#include "executor/devices/lower/strided.h"
#include "executor/devices/lower/to_fused.h"
#include "executor/kernels/fused.h"
#include "executor/kernels/move.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway::cpu {
namespace {

constexpr size_t kOperandsMax = 64;

// An operand that must be laid out in full before the chain runs.
struct Spread {
  StridedCopy copy;
  uint32_t parameter = 0;
  int64_t offset = 0;  // Offset in scratch.
  size_t input = 0;
};

struct FusionState {
  Fused fused;
  int64_t outer, inner;
  std::vector<uint32_t> parameters;  // Indexed by input.
  std::vector<Spread> spreads;
  size_t outputs;

  void run(const KernelArgs& args) const {
    const void* in[kOperandsMax];
    void* out[kOperandsMax];
    for (size_t i = 0; i < parameters.size(); ++i) in[i] = args.in(parameters[i]);
    for (size_t r = 0; r < outputs; ++r) out[r] = args.out(r);
    for (const Spread& spread : spreads) {
      void* full = static_cast<std::byte*>(args.scratch_data()) + spread.offset;
      strided_copy(args.par, spread.copy, args.in(spread.parameter), full);
      in[spread.input] = full;
    }
    fused.run(args.par, outer, inner, std::span(in, parameters.size()), std::span(out, outputs));
  }
};

}  // namespace

Lowered lower_fusion(const LowerCall& call) {
  const Function& body = *call.node().body;
  FusedChain chain = to_fused(body);
  GW_ASSERT(chain.inputs.size() <= kOperandsMax && body.results.size() <= kOperandsMax);
  auto state = std::make_shared<FusionState>(
      FusionState{Fused(chain.program), chain.outer, chain.inner, {}, {}, body.results.size()});
  int64_t scratch = 0;
  for (size_t i = 0; i < chain.inputs.size(); ++i) {
    const FusedChain::Input& input = chain.inputs[i];
    state->parameters.push_back(input.parameter);
    if (input.view == kNone) continue;
    const Node& node = body.nodes[input.view];
    const Type& to = body.types[node.first_result];
    state->spreads.push_back(
        {broadcast_copy(body.types[input.parameter], to, node.attrs.ints("map")), input.parameter,
         scratch, i});
    scratch += align_up(to.bytes(), kScratchAlignment);
  }
  return {[state](const KernelArgs& args) { state->run(args); }, scratch};
}

}  // namespace gangway::cpu
