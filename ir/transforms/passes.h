// The passes from a global function to what one device runs: a table with a row for each, in their
// order.
//
// To add a pass, write it in a file of its own in the folder of its kind, add its row to the table
// (passes.cc), and a function that it changes to ir/transforms/passes_test.cc, whose golden text
// GW_UPDATE_GOLDEN=1 writes. `gangway graph FILE --after NAME` prints a program's functions behind
// a pass.
//
// Memory is planned later, by the host that knows the device (memory/plan_memory.h), since kernels
// differ in their scratchpads.
//
// Threads: the table is immutable; passes are pure functions of the compilation they are given.
// Errors: kInvalid with the user's line.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/graph/function.h"
#include "ir/transforms/pipeline.h"
#include "ir/transforms/propagation/propagate_shardings.h"

namespace gangway {

// A function on its way through the passes, and what they find out about it.
struct Compilation {
  const Function& global;
  const CallContext& context;
  CompileRecord* record = nullptr;  // Receives the decisions; null: no record is kept.

  Function function;  // In the global view before `partition`, one device's from then on.
  std::vector<Sharding> parameter_shardings;
  std::vector<Sharding> result_shardings;  // The wanted ones before `partition`; empty: open.
  Propagation propagation;
  NodeId commit_begin = kNone;  // First node that writes state, from `order_commit` on.
  std::vector<LocalFunction::Section> sections;
};

// A pass that needs to know of shardings, states or devices.
using CompilationPass = void (*)(Compilation&);
// A pass that rewrites one local function and knows of nothing else. It moves `commit_begin` with
// the node that it names, which is behind the last node of a function that writes no state.
using LocalPass = Function (*)(const Function& local, NodeId& commit_begin);

enum class OnBodies : uint8_t {
  kNo,   // Only on the function. Where its bodies need it too, the pass treats them itself.
  kYes,  // On the function, and then on each body of a scan or call, innermost first.
};

struct Pass {
  std::string_view name;  // The function's name in its file: "fuse_elementwise".
  std::variant<CompilationPass, LocalPass> run;
  OnBodies on_bodies = OnBodies::kNo;
  std::string_view doc;  // One line for people: what has changed behind the pass.
};

// All passes, in their order.
std::span<const Pass> passes();

void run_pass(const Pass& pass, Compilation& compilation);

}  // namespace gangway
