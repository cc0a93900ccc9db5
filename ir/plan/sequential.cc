#include "ir/plan/sequential.h"

#include <algorithm>

#include "runtime/base/cat.h"

namespace gangway {
namespace {

bool needs_depend_on_data(const PlanNode& node) {
  return node.firing.late || node.firing.rule != FiringRule{};
}

}  // namespace

bool is_sequential(const Plan& plan, const PlanNode& node) {
  return plan.dispatch == Dispatch::kSequential || needs_depend_on_data(node);
}

bool any_sequential(const Plan& plan) {
  return plan.dispatch == Dispatch::kSequential ||
         std::ranges::any_of(plan.nodes, needs_depend_on_data);
}

std::string why_sequential(const Plan& plan) {
  if (plan.dispatch == Dispatch::kSequential)
    return "its client compiled it with CompileOptions::dispatch sequential";
  const auto first = std::ranges::find_if(plan.nodes, needs_depend_on_data);
  if (first == plan.nodes.end()) return "";
  const auto others = std::ranges::count_if(plan.nodes, needs_depend_on_data) - 1;
  return cat("what node \"", first->name, "\"", first->at.empty() ? "" : " at ", first->at,
             others == 0 ? "" : cat(" and ", others, " more"),
             others == 0 ? " needs depends" : " need depends",
             " on data: it fires before all its inputs have come");
}

}  // namespace gangway
