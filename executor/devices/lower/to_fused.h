// Translates element-wise nodes to the fused programs that the CPU interprets and GPU kernels are
// generated from.
//
// Threads: pure.
#pragma once

#include <vector>

#include "executor/kernels/fused.h"
#include "ir/graph/function.h"

namespace gangway {

// The instruction of an element-wise op; others are kBug.
FusedOp to_fused(Op op);

// A fused chain as a program over [outer, inner]; input i of the program is parameter
// `parameter[i]` of the body. An operand whose broadcast is neither scalar, row nor column is laid
// out in full first, or read where it lies. The same holds for an operand that the body transposes
// or slices, which only the CUDA device's own pass fuses (view_fusion.h).
struct FusedChain {
  FusedProgram program;
  int64_t outer = 1, inner = 1;
  struct Input {
    uint32_t parameter = 0;
    // The body's broadcast, transpose or slice whose result the program reads, or kNone.
    NodeId view = kNone;
  };
  std::vector<Input> inputs;
};
FusedChain to_fused(const Function& body);

}  // namespace gangway
