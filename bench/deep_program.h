// Training steps of deep models, to measure what compiling costs. Nothing runs them.
//
// Threads: pure functions.
#pragma once

#include "ir/graph/program.h"

namespace gangway::bench {

// GPT-3's shape (Brown et al. 2020), its feed-forward layers replaced by 64 experts each.
struct Gpt3 {
  int64_t layers = 96;
  int64_t data = 16, model = 8, expert = 16;  // Devices along the axes of these names.
};

// Returns the step with which programs/ trains it under zero3+megatron+expert_parallel. Its layers
// are a scan.
Program gpt3(const Gpt3& of);

// Returns the step of a dense model of small layers on 4 devices. All layers are written out, which
// programs/ never does: about 100 nodes for each.
Program unrolled(int64_t layers);

// Counts the nodes of a function and of the bodies inside it, each once.
size_t nodes_with_bodies(const Function& function);

}  // namespace gangway::bench
