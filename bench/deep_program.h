// Training steps of deep models: what compiling costs is measured on them. Nothing runs them.
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

// The step that programs/ trains it with under zero3+megatron+expert_parallel; its layers are a
// scan.
Program gpt3(const Gpt3& of);

// The step of a dense model of small layers, all written out, which programs/ never does: about 100
// nodes for each. On 4 devices.
Program unrolled(int64_t layers);

// Of a function and the bodies inside it, each once.
size_t nodes_with_bodies(const Function& function);

}  // namespace gangway::bench
