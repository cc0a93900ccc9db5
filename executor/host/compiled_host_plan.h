// CompiledHostPlan: a plan whose functions are compiled, and the texts of whose sources are loaded.
//
// Function f of the plan has the number f in a CompileJob; initialisers of states have the numbers
// behind those of the functions.
// Threads: reactor thread; the job is compiled on the compiler's (executor/devices/compiler.h).
// Errors: those of compiling are the job's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "executor/devices/compiler.h"
#include "executor/host/plan_on_host.h"
#include "executor/sources/text_store.h"
#include "executor/store/state_store.h"
#include "ir/plan/plan_members.h"

namespace gangway {

// The groups of one slice along some axes, and what all their collectives together need.
struct GroupSpec {
  uint32_t slice = 0;
  CompiledFunction::CollectiveNeed need;
  std::vector<GroupRow> rows;  // The groups in which this host has members.
};

struct CompiledHostPlan : PlanOnHost {
  CompiledHostPlan(PlanOnHost&& given, HeldTexts&& held)
      : PlanOnHost(std::move(given)), texts(std::move(held)) {}

  HeldTexts texts;
  std::vector<CompiledFunctions> functions;  // Indexed by rank.
  // Indexed by Plan::states, then by DeviceCompiler::family(); null if not here, or not new.
  std::vector<std::map<const void*, std::shared_ptr<const CompiledFunction>>> inits;
  int64_t init_arena = 0;  // Bytes that initialisers of its states need.
  std::vector<GroupSpec> groups;
};

// Adds the functions of the plan's calls here, and the initialisers of its states that are not in
// the store.
void add_functions(const PlanOnHost& plan, StateStore& states, CompileJob& job);
// `job`: with these functions, compiled.
CompiledHostPlan compiled(PlanOnHost plan, HeldTexts texts, const CompileJob& job);

}  // namespace gangway
