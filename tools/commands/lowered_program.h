// A program as devices would run it, and the texts that `gangway graph` prints about it.
//
// Threads: functions of one thread. Errors: those of lower(), with the user's line.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/program_graph.h"
#include "controller/plans/lower.h"
#include "ir/explain/why.h"
#include "ir/graph/program.h"
#include "ir/plan/plan.h"

namespace gangway::tool {

struct LoweredProgram {
  Program program;
  Plan plan;
  std::map<uint32_t, CompileRecord> calls;  // Keyed by node of the program.
  std::vector<std::string> placed = {};     // Why each slice lies where it does; empty: unknown.
};

// Lowers the program for CPUs that need not exist, on `hosts` hosts, in equal parts.
// `records_passes`: for pass_text(), which needs the function behind each pass.
LoweredProgram lower_for_nobody(Program program, int64_t hosts, bool records_passes = false);
// Lowers a running program for the devices on which the cluster runs it.
LoweredProgram lower_as_it_runs(ProgramGraph graph, bool records_passes = false);

// Prints the functions of its calls, with the sharding of each value.
std::string shardings_text(const LoweredProgram& lowered);
// Prints the functions of its calls behind a pass (ir/transforms/passes.h).
std::string pass_text(const LoweredProgram& lowered, std::string_view pass);
// Prints the functions of its plan, which one device runs.
std::string device_text(const LoweredProgram& lowered);
// Prints the collectives by which the devices of each call exchange values in a run.
std::string collectives_text(const LoweredProgram& lowered);
// Prints the bytes that each device holds and sends.
std::string totals_text(const LoweredProgram& lowered);
// Prints the contents of a CPU's arena over each call, whatever the kind of its devices.
std::string memory_text(const LoweredProgram& lowered);
// Returns the fields of the page's document (docs/page_document.md), a name and its JSON each: the
// program, and how it runs: "plan", with the arena of a CPU, and "layout".
std::vector<std::pair<std::string, std::string>> page_fields(const LoweredProgram& lowered);

}  // namespace gangway::tool
