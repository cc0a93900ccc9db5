#include "executor/devices/cuda/lower/chain_source.h"
#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/cuda/lower/product_fusion.h"
#include "executor/devices/cuda/lower/product_tail.h"
#include "executor/devices/lower/strided.h"
#include "executor/devices/lower/to_fused.h"

namespace gangway::cuda {

void launch_chain(Lowering& call, const FusedProgram& program, int64_t outer, int64_t inner,
                  std::vector<Argument> tensors) {
  int64_t width = chain_width(program);
  while (inner % width != 0) width /= 2;
  const auto module = call.gpu.compile({"chain.cu", chain_source(program, width)});
  call.keep(module);
  const Result<KernelHandle> kernel = call.gpu.driver().kernel(module->handle(), kChainKernel);
  if (!kernel.ok()) throw kernel.error();
  tensors.push_back(value(outer));
  tensors.push_back(value(inner));
  call.launch_flat(kernel.value(), outer * inner / width, std::move(tensors));
}

namespace {

// `parameters`: where the body's are read.
void lower_chain(Lowering& call, const std::vector<Argument>& parameters) {
  const Function& body = *call.node().body;
  const FusedChain chain = to_fused(body);
  std::vector<Argument> tensors;
  for (const FusedChain::Input& input : chain.inputs) {
    tensors.push_back(parameters[input.parameter]);
    if (input.spread == kNone) continue;
    const Node& node = body.nodes[input.spread];
    const Type& to = body.types[node.first_result];
    const Argument full = call.scratch(to.bytes());
    call.move(broadcast_copy(body.types[input.parameter], to, node.attrs.ints("map")),
              parameters[input.parameter], full);
    tensors.back() = Lowering::as(full, AccessKind::kRead);
  }
  for (uint32_t r = 0; r < body.results.size(); ++r) tensors.push_back(call.write(r));
  launch_chain(call, chain.program, chain.outer, chain.inner, std::move(tensors));
}

// The product with its epilogue; where no library offers that, the product, then the chain.
void lower_product_fusion(Lowering& call) {
  const Function& body = *call.node().body;
  const auto product = static_cast<uint32_t>(call.attrs().integer(kProductAttr));
  const size_t a = call.inputs() - 2, b = call.inputs() - 1;
  const bool kept = call.node().results == 2;
  const ProductTail tail = product_tail(body, product).value();
  std::vector<Argument> parameters;  // The product is not yet among them.
  for (size_t i = 0; i < a; ++i) parameters.push_back(call.read(i));

  const DType dtype = body.types[product].dtype;
  std::vector<Argument> more;
  for (const uint32_t operand : {tail.bias, tail.added, tail.pre}) {
    if (operand != kNone) more.push_back(parameters[operand - (operand > product ? 1 : 0)]);
  }
  if (kept) more.push_back(call.write(1));
  const Epilogue epilogue = tail.epilogue(kept);
  if (lower_product(call, a, b, dtype, call.write(0), epilogue, more)) return;

  const Argument made = kept ? call.write(1) : call.scratch(body.types[product].bytes());
  lower_product(call, a, b, dtype, made, {}, {});
  parameters.insert(parameters.begin() + product, Lowering::as(made, AccessKind::kRead));
  lower_chain(call, parameters);
}

}  // namespace

void lower_fusion(Lowering& call) {
  if (call.out().elements() == 0) return;
  if (call.attrs().find(kProductAttr) != nullptr) return lower_product_fusion(call);
  std::vector<Argument> parameters;
  for (size_t i = 0; i < call.inputs(); ++i) parameters.push_back(call.read(i));
  lower_chain(call, parameters);
}

}  // namespace gangway::cuda
