#include "executor/host/compiled_host_plan.h"

#include <algorithm>

namespace gangway {
namespace {

// body(call, rank) for each call that a rank of this host takes part in.
template <class Body>
void for_each_call(const PlanOnHost& plan, Body body) {
  for (const PlanNode& node : plan.plan->nodes) {
    if (node.kind != PlanNodeKind::kCall) continue;
    for (size_t r = 0; r < plan.ranks.size(); ++r) {
      if (mesh_device_of(plan.plan->slices[node.slice], plan.ranks[r].member) != kNone)
        body(node, r);
    }
  }
}

uint32_t initialiser_number(const PlanOnHost& plan, size_t state) {
  return static_cast<uint32_t>(plan.plan->functions.size() + state);
}

void add_initialisers(const PlanOnHost& plan, StateStore& states, CompileJob& job) {
  for (size_t s = 0; s < plan.plan->states.size(); ++s) {
    const PlanState& state = plan.plan->states[s];
    const TensorShards& like = plan.shards[state.value];
    if (like.shards.empty() ||
        states.find_like(plan.scope, plan.plan->values[state.value].name, like))
      continue;
    const LocalFunction local{state.init, static_cast<NodeId>(state.init->nodes.size()), {}, kNone};
    for (const PlanRank& rank : plan.ranks) {
      if (like.on(rank.member.device, rank.member.rank) != nullptr)
        job.add(initialiser_number(plan, s), rank.device->compiler(), local);
    }
  }
}

void add_need(const CompiledFunction::CollectiveNeed& need, CompiledFunction::CollectiveNeed& all) {
  all.bytes_max = std::max(all.bytes_max, need.bytes_max);
  for (size_t kind = 0; kind < kCollectiveKinds; ++kind) {
    if (!all.kinds.has(static_cast<CollectiveKind>(kind))) all.at[kind] = need.at[kind];
  }
  all.kinds.add(need.kinds);
}

std::vector<uint32_t> mesh_devices_here(const PlanOnHost& plan, uint32_t slice) {
  std::vector<uint32_t> here;
  for (const PlanRank& rank : plan.ranks) {
    const uint32_t device = mesh_device_of(plan.plan->slices[slice], rank.member);
    if (device != kNone) here.push_back(device);
  }
  return here;
}

void add_groups(CompiledHostPlan& plan, uint32_t slice, const CompiledFunction& function) {
  for (const CompiledFunction::CollectiveNeed& need : function.collective_needs()) {
    auto same = [&](const GroupSpec& group) {
      return group.slice == slice && group.need.axes == need.axes;
    };
    const auto found = std::find_if(plan.groups.begin(), plan.groups.end(), same);
    if (found == plan.groups.end()) {
      plan.groups.push_back(
          {slice, need,
           rows_of(plan.plan->slices[slice].mesh, need.axes, mesh_devices_here(plan, slice))});
    } else {
      add_need(need, found->need);
    }
  }
}

}  // namespace

void add_functions(const PlanOnHost& plan, StateStore& states, CompileJob& job) {
  for_each_call(plan, [&](const PlanNode& node, size_t rank) {
    job.add(node.function, plan.ranks[rank].device->compiler(),
            plan.plan->functions[node.function]);
  });
  add_initialisers(plan, states, job);
}

CompiledHostPlan compiled(PlanOnHost plan, HeldTexts texts, const CompileJob& job) {
  CompiledHostPlan made(std::move(plan), std::move(texts));
  made.functions.resize(made.ranks.size());
  for (CompiledFunctions& functions : made.functions) functions.resize(made.plan->functions.size());
  for_each_call(made, [&](const PlanNode& node, size_t rank) {
    auto& function = made.functions[rank][node.function];
    function = job.made(node.function, made.ranks[rank].device->compiler());
    add_groups(made, node.slice, *function);
  });
  made.inits.resize(made.plan->states.size());
  for (size_t s = 0; s < made.inits.size(); ++s) {
    for (const PlanRank& rank : made.ranks) {
      const auto init = job.made(initialiser_number(made, s), rank.device->compiler());
      if (init == nullptr) continue;
      made.inits[s][rank.device->compiler().family()] = init;
      made.init_arena = std::max(made.init_arena, init->arena_bytes());
    }
  }
  return made;
}

}  // namespace gangway
