#include "executor/devices/cuda/chain_source.h"
#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/strided.h"
#include "executor/devices/to_fused.h"

namespace gangway::cuda {

void lower_fusion(Lowering& call) {
  const Function& body = *call.node().body;
  const FusedChain chain = to_fused(body);
  const int64_t n = chain.outer * chain.inner;
  if (n == 0) return;
  int64_t width = chain_width(chain.program);
  if (chain.inner % width != 0) width = 1;
  const auto module = call.gpu.compile({"chain.cu", chain_source(chain.program, width)});
  call.keep(module);
  const Result<KernelHandle> kernel = call.gpu.driver().kernel(module->handle(), kChainKernel);
  if (!kernel.ok()) throw kernel.error();
  std::vector<Argument> arguments;
  for (const FusedChain::Input& input : chain.inputs) {
    arguments.push_back(call.read(input.parameter));
    if (input.spread == kNone) continue;
    const Node& node = body.nodes[input.spread];
    const Type& to = body.types[node.first_result];
    const Argument full = call.scratch(to.bytes());
    call.move(broadcast_copy(body.types[input.parameter], to, node.attrs.ints("map")),
              call.read(input.parameter), full);
    arguments.back() = Lowering::as(full, AccessKind::kRead);
  }
  for (size_t r = 0; r < body.results.size(); ++r) arguments.push_back(call.write(r));
  arguments.push_back(value(chain.outer));
  arguments.push_back(value(chain.inner));
  call.launch_flat(kernel.value(), n / width, std::move(arguments));
}

}  // namespace gangway::cuda
