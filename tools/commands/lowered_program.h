// A program as devices would run it, and the texts of it that `gangway graph` prints.
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
#include "controller/lowering/lower.h"
#include "ir/explain/why.h"
#include "ir/graph/program.h"
#include "ir/plan/plan.h"

namespace gangway::tool {

struct LoweredProgram {
  Program program;
  Plan plan;
  std::map<uint32_t, CompileRecord> calls;  // By node of the program.
  std::vector<std::string> placed = {};     // By slice: why it lies where it does; empty: unknown.
};

// For CPUs that need not be there, on so many hosts, in equal parts.
LoweredProgram lower_for_nobody(Program program, int64_t hosts);
// As a cluster runs it.
LoweredProgram lower_as_it_runs(ProgramGraph graph);

// The functions of its calls, with the sharding of each value.
std::string shardings_text(const LoweredProgram& lowered);
// The functions of its calls behind a pass (ir/transforms/passes.h).
std::string pass_text(const LoweredProgram& lowered, std::string_view pass);
// What one device runs: the functions of its plan.
std::string device_text(const LoweredProgram& lowered);
// What the devices of each call exchange in a run.
std::string collectives_text(const LoweredProgram& lowered);
// What each device holds and sends.
std::string totals_text(const LoweredProgram& lowered);
// What lies in the arena of a CPU over each call, of whichever kind its devices are.
std::string memory_text(const LoweredProgram& lowered);
// The fields of the page's document: the program, and how it runs: "plan", with the arena of a CPU,
// and "layout" (docs/page_document.md). Each a name and its JSON.
std::vector<std::pair<std::string, std::string>> page_fields(const LoweredProgram& lowered);

}  // namespace gangway::tool
