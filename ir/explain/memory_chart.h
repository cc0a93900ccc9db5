// The arena of one device over a run of a function, drawn: how much of it is in use at each node,
// and who holds it where that is most, by the user's line and scopes.
//
//   arena 1.2 MiB, 1.1 MiB of it in use at once
//     1.1 MiB |   ▂▅█▇▆▃
//             | ▃▇██████▅▂
//     0 B     +------------
//              310 nodes; [N]: a loop of N, drawn once
//   most at %120 = dot (model.cc:80 in layers):
//     512.0 KiB  model.cc:80 in layers: 2 values of dot
//     256.0 KiB  model.cc:64 in layers: scratchpad of attention
//
// A body is drawn once, where the node that runs it stands. States, inputs and results of calls are
// not in the arena.
//
// Threads: pure functions. Cost: linear in nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/transforms/memory/plan_memory.h"

namespace gangway {

// A node of a part; the parts around it are those whose nodes run it.
struct ArenaStep {
  size_t part = 0;
  NodeId node = kNone;
  int64_t bytes = 0;   // In use then, with what the parts around it hold.
  int64_t length = 1;  // How often it runs each time that the function does.
};

// In the order in which they run, each body once. `parts`: a function's, it itself last.
std::vector<ArenaStep> arena_steps(const std::vector<PlannedPart>& parts);

std::string memory_chart(const std::vector<PlannedPart>& parts);

}  // namespace gangway
