// Chain source: the CUDA C++ of a fused chain, from the same program that the CPU interprets.
//
// A thread computes whole elements and keeps what lies between in registers, so that a chain reads
// its inputs and writes its outputs once. Equal programs give equal texts, whatever their sizes:
// the text is what compiled modules are known by.
//
// Threads: pure. Errors: none; the program was checked where it was made.
#pragma once

#include <string>

#include "executor/kernels/fused.h"

namespace gangway::cuda {

inline constexpr const char* kChainKernel = "chain";

// The kernel's parameters: inputs, outputs, then int64 outer, int64 inner.
std::string chain_source(const FusedProgram& program);

}  // namespace gangway::cuda
