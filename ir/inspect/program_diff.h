// The differences between two programs, for people: `gangway graph --diff A B`.
//
//   ~ slice "main" mesh {data: 2} -> slice "main" mesh {data: 4}
//   - state "head": f32[64, 256]
//   ~ state "wte": f32[256, 64] -> f32[256, 64] {model: shard(0)}
//   @train_step: 310 nodes -> 311 nodes
//     - %14: f32[512, 64] = gelu %13  // model.cc:80
//     + %14: f32[512, 64] = relu %13  // model.cc:80
//     + %15: f32[512, 64] = square %14  // model.cc:80
//     ~ %15 -> %16: dot reads %14, %3 -> %15, %3
//   a run: 1.38 GFLOP, ... -> 1.40 GFLOP, ...
//
// Nodes of programs are paired by their kind and name, functions by the calls that name them,
// bodies by their order in these. Nodes of functions are paired along the shortest edit script
// (Myers, "An O(ND) Difference Algorithm and Its Variations", 1986), by op, attributes and types,
// without the numbers of values; then operands are compared through the pairs. Lines of the source
// are not compared.
//
// Threads: a pure function on verified graphs.
// Cost: O(nodes x differences), and at most kEditsMax differences of a function are looked for:
// beyond it its nodes are compared in number by op only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph/program.h"

namespace gangway {

inline constexpr size_t kEditsMax = 2000;

// Empty: they are the same graph.
std::string program_diff(const Program& a, const Program& b);

// Pairs of equal items, ascending in both: a longest common subsequence. False where the edit
// script is longer than `edits_max`.
struct AlignedPair {
  uint32_t a = 0, b = 0;
};
bool align(const std::vector<std::string>& a, const std::vector<std::string>& b, size_t edits_max,
           std::vector<AlignedPair>& pairs);

}  // namespace gangway
