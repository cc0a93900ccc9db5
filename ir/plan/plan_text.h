// A plan as people read it: for golden tests, logs and `gangway graph`.
//
//   plan @train_step over host-0 host-1, 2 runs in flight
//     slice 0 {data: 4} on host-0:0-1 host-1:0-1
//     %0 state "w": f32[8] {}
//     %1 input "x": f32[16] {data: shard(0)} -> f32[4]
//     0: call main(%1, %0) [9 nodes, commit at 8, sections 0: 240 us, 8: 30 us] -> %2, %0
//     1: gate(%2)
//     2: commit 0
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ir/plan/plan.h"

namespace gangway {

std::string to_text(const Plan& plan);

// "9 nodes, commit at 8, sections 0: 240 us, 8: 30 us", of a local function as that text has it.
std::string commit_text(size_t nodes, NodeId commit_begin,
                        const std::vector<LocalFunction::Section>& sections);

// "call", as that text says it.
std::string_view to_string(PlanNodeKind kind);

}  // namespace gangway
