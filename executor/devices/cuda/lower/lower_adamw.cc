#include "executor/devices/cuda/lower/many_tensors.h"

namespace gangway::cuda {
namespace {

constexpr size_t kTensors = 4, kResults = 3;  // p, m, v, g, and p, m, v.

template <int kMax>
void launch_many(Lowering& call, std::span<const NodeId> nodes) {
  std::vector<Argument> arguments;
  std::vector<int64_t> elements;
  ManyNumbers<kMax> weight_decay;
  for (const NodeId id : nodes) {
    const Lowering one(call.gpu, call.function, id);
    if (one.in(0).elements() == 0) continue;
    for (size_t i = 0; i < kTensors; ++i) arguments.push_back(Lowering::of(id, one.read(i)));
    for (size_t r = 0; r < kResults; ++r) arguments.push_back(Lowering::of(id, one.write(r)));
    weight_decay.at[elements.size()] = one.attrs().real("weight_decay");
    elements.push_back(one.in(0).elements());
  }
  if (elements.empty()) return;
  const auto packed = static_cast<uint32_t>(arguments.size());
  for (size_t rate = kTensors; rate < call.inputs(); ++rate) arguments.push_back(call.read(rate));
  ManyPieces<kMax> pieces;
  const int64_t blocks = cut(call, elements, kAdamwPiece, pieces);
  arguments.push_back(value(pieces));
  arguments.push_back(value(weight_decay));
  for (const char* rate : {"beta1", "beta2", "eps"})
    arguments.push_back(value(call.attrs().real(rate)));
  const std::string types = cat(to_string(call.in(0).dtype), "_", to_string(call.in(3).dtype));
  call.launch_many(cat("adamw_", kMax, "_", types), blocks,
                   {packed, static_cast<uint32_t>(kMax * (kTensors + kResults))},
                   std::move(arguments));
}

}  // namespace

// Inputs: p, m, v, g, lr, correction1, correction2, grad_scale.
void lower_many_adamw(Lowering& call, std::span<const NodeId> nodes) {
  if (nodes.size() == 1) return launch_many<1>(call, nodes);
  nodes.size() <= kFewTensors ? launch_many<kFewTensors>(call, nodes)
                              : launch_many<kManyTensors>(call, nodes);
}

void lower_adamw(Lowering& call) { lower_many_adamw(call, {&call.id, 1}); }

}  // namespace gangway::cuda
