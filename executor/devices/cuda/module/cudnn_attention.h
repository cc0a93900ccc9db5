// Attention and its gradient as graphs of cuDNN, and the shapes for which cuDNN is used.
//
// The graphs are those that cuDNN's kernels for attention recognise: for other operations of the
// same meaning cuDNN would find no kernel.
//
// Shapes: bf16, with the lse in f32; memory in the order of Driver::run()'s tensors.
// Threads: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "executor/devices/cuda/module/fused_attention.h"
#include "executor/devices/cuda/module/graph_builder.h"

namespace gangway::cuda {

// Empty where cuDNN of this version (for example 91900) may be tried; it may still have no kernel.
std::string why_not_cudnn(const AttentionShape& shape, AttentionPass pass, size_t version);

void build_attention(GraphBuilder& graph, const AttentionShape& shape);

// How the blocks of keys add to dq. kOrdered: in one order, which gives the same bits on every run
// but keeps all dscores in the scratchpad, in bf16. kAsTheyCome: in f32, in any order.
enum class GradientSums : uint8_t { kOrdered, kAsTheyCome };
GradientSums gradient_sums(const AttentionShape& shape, uint32_t architecture);
void build_attention_grad(GraphBuilder& graph, const AttentionShape& shape, GradientSums sums);

}  // namespace gangway::cuda
