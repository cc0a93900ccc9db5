// PlanOnHost: a plan that a host was asked to install, and what follows from the plan alone. Each
// stage of its installation is a type with all that is valid from that stage on, made by one
// function from the stage before it, in a file of its name:
//
//   plan_on_host()   PlanOnHost         the ranks that this host's devices run
//   compiled()       CompiledHostPlan   their functions, and the texts of sources
//   laid_out()       LaidOutPlan        entries, places, memory that peers write
//   linked()         LinkedPlan         collectives and channels
//   ready()          InstalledPlan      memory on the devices, and runs
//
// A stage is also every stage before it: what a function takes as CompiledHostPlan may be linked
// already. host_plans.h has the table of them, and what happens between two stages.
//
// Threads: reactor thread.
// Ownership: lists by rank have one element for each of `ranks`, in their order. They stay where
// they are in memory when a stage becomes the next one, so that a stage may point to them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "executor/host/host_devices.h"
#include "executor/replay/device_plan.h"
#include "executor/sources/data_source.h"
#include "executor/store/tensor_shards.h"
#include "ir/plan/plan.h"
#include "ir/plan/positions.h"
#include "protocol/install.h"
#include "protocol/messages.h"

namespace gangway {

// The controller asks a host to install this.
struct PlanRequest {
  PlanId id;
  std::shared_ptr<const Plan> plan;
  uint32_t self = 0;  // This host's index in Plan::hosts.
  StateScope scope;
  PlanOwner owner;
};

struct PlanOnHost : PlanRequest {
  Positions positions;
  bool sequential = false;      // Its nodes are dispatched sequentially (ir/plan/sequential.h).
  std::vector<PlanRank> ranks;  // The ranks of this host.
  std::vector<TensorShards> shards;  // Indexed by value; only this host's devices, without buffers.
  // Indexed by Plan::sources; empty if not here.
  std::vector<std::optional<DataSourceSpec>> source_specs;
};

// Throws kInvalid if the plan is wrong, or these devices can't run it.
PlanOnHost plan_on_host(const PlanRequest& request, const HostDevices& devices);

// All devices of a host are alike. The plan has a rank here.
inline bool is_discrete(const PlanOnHost& plan) {
  return plan.ranks[0].device->stream().discrete();
}
inline bool has_values(const PlanOnHost& plan) {
  return plan.ranks[0].device->memory().has_values();
}

// Index of a member in `ranks`; kNone if it is not of this host.
uint32_t rank_of(const PlanOnHost& plan, const Member& member);

}  // namespace gangway
