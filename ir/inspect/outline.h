// A program for people: what it is made of, on a page or two.
//
//   program @train_step finite "loss"
//     slice "main" mesh {data: 4}
//     36 states, 3.6 MiB
//       params.*: 12 states, 1.2 MiB
//       adamw.m.params.*: 12 states, 1.2 MiB
//     %12 = source "tokens" -> i32[32, 128] {data: shard(0)}  // language_model.cc:120
//     %39 = call "main" @train_step, 39 operands -> 42 results, updates 36 states
//       @train_step: 310 nodes, 1.4 GFLOP, 2.2 GiB read and written
//         scan of 3: 88 nodes, 420 MFLOP, 80.1 MiB read and written each time  // model.cc:80
//     %40 = output "loss" (%39.36) -> f32[]
//
// Operations and bytes are those of the whole program in one run, as one device would do it: those
// of a body count for each time that it runs.
//
// Threads: pure functions on verified graphs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph/program.h"

namespace gangway {

// The parts that are shown; empty lists: all.
struct OutlineFilter {
  std::vector<std::string> nodes;   // Parts of the names of the program's nodes.
  std::vector<std::string> slices;  // Names.
  std::vector<std::string> ops;     // Ops of functions' nodes: "dot".
};

// Throws kInvalid for a slice or op that the program lacks, listing those that it has.
std::string outline(const Program& program, const OutlineFilter& filter = {});

// The functions that its calls name, each once, with the bodies in them, in the text form
// (ir/text/text.h); not those that compute the first values of states. With `ops` only those nodes,
// and the functions that have one. kInvalid as outline().
std::string functions_text(const Program& program, const OutlineFilter& filter = {});

struct ProgramTotals {
  int64_t states = 0, state_bytes = 0;
  double flops = 0, bytes = 0;  // Totals of all calls in one run.
};
ProgramTotals totals_of(const Program& program);
// "1.38 GFLOP, 2.2 GiB read and written; 36 states of 3.6 MiB"
std::string to_text(const ProgramTotals& totals);

}  // namespace gangway
