// HostPlan: a plan installed on this host, with what its devices share.
//
// Life: compiling (possibly on a thread of the compiler, while another thread loads the texts of
// its sources) -> installed (laid out, nothing allocated) -> linked (peers' memory opened) -> ready
// (allocated, initialised) -> closing (uninstalled, its last runs end).
// Threads: reactor thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/collectives/hosts/group_links.h"
#include "executor/devices/compiler.h"
#include "executor/links/host_link.h"
#include "executor/replay/device_plan.h"
#include "executor/replay/device_run.h"
#include "executor/sources/data_source.h"
#include "executor/store/state_store.h"
#include "executor/store/tensor_shards.h"
#include "executor/transfers/device_link.h"
#include "executor/transfers/planted_bugs.h"
#include "ir/plan/positions.h"
#include "protocol/install.h"
#include "protocol/messages.h"
#include "runtime/fibers/future.h"

namespace gangway {

// The groups of one slice along some axes, and what all their collectives together need.
struct GroupSpec {
  uint32_t slice = 0;
  CompiledFunction::CollectiveNeed need;
  std::vector<std::vector<uint32_t>> groups;  // Mesh devices.
};

// One row of such a group, or the gate, in which devices of this host are members.
struct PlanGroup {
  uint32_t spec = kNone;  // Index in HostPlan::groups; kNone: the gate.
  uint32_t row = 0;       // Index in GroupSpec::groups.
  GroupView view;
  std::vector<Member> here;  // In the order of view.here().
  // The group has only the lowest rank of each device: it is used after the ranks of each device
  // have reduced. The entry behind it is the group of all ranks.
  bool of_devices = false;
};

// A run in flight: its part on each device of this host.
struct PlanRun {
  std::vector<std::unique_ptr<DeviceRun>> devices;  // In the order of HostPlan::devices.
  RunId run;
  size_t running = 0;  // Devices that have not finished.
  // Positions that have tickets: by slice, and for a run that is granted in all slices at once.
  std::vector<uint32_t> granted;
  uint32_t granted_in_order = 0;
  std::vector<SectionTime> told;  // Last report of each slice to the controller; busy_ns sums up.
  std::vector<uint64_t> source_positions;    // Sequential dispatch: for sources granted later.
  bool refused = false;                      // It does not fit its plan.
  std::deque<std::vector<std::byte>> parts;  // Inline arguments, by device.
};

enum class PlanStage : uint8_t {
  kCompiling,
  kInstalled,
  kLinked,
  kInitialising,  // Allocated; initialisers of its new states run.
  kReady,
  kClosing
};

struct HostPlan {
  PlanId id;
  std::shared_ptr<const Plan> plan;
  uint32_t self = 0;
  StateScope scope;
  PlanOwner owner;
  PlanStage stage = PlanStage::kCompiling;
  int64_t init_arena = 0;  // Bytes that initialisers of its states need.
  // Set if one of its devices has less memory in total than the plan needs there; the plan then
  // offers nothing to its peers.
  std::optional<Error> too_large;
  std::shared_ptr<CompileJob> compiling;
  // Texts that are still loading, and 1 while the compiler works.
  size_t to_come = 0;
  std::optional<Error> text_error;       // Error of the first text that could not be loaded.
  std::map<std::string, TextPtr> texts;  // Keys are paths.
  Promise<Installed> installed;
  Promise<void> committed;
  size_t initialising = 0;           // Shards of new states that are not filled yet.
  std::optional<Error> init_failed;  // The first failure of an initialiser, or of a step before.
  std::vector<std::shared_ptr<State>> added;  // States that it created and no other plan shares.

  // Indexed by Plan::states, then by Device::family(); null if not here, or not new.
  std::vector<std::map<const void*, std::shared_ptr<const CompiledFunction>>> inits;
  std::vector<GroupSpec> groups;
  std::vector<PlanGroup> meetings;
  std::vector<std::unique_ptr<DevicePlan>> devices;
  std::vector<TensorShards> shards;  // Indexed by value; only this host's devices, without buffers.
  // Indexed by Plan::sources; empty if not here.
  std::vector<std::optional<DataSourceSpec>> source_specs;
  std::vector<std::unique_ptr<const DataSource>> sources;

  std::shared_ptr<OwnMemory> memory;  // Memory in which this host's devices receive.
  // Indexed by host; null: nothing is written to it.
  std::vector<std::shared_ptr<PeerMemory>> peers;
  // Keys are a receive and a mesh device.
  std::map<std::pair<uint32_t, uint32_t>, std::shared_ptr<DeviceLink>> links;

  PlantedTransferBugs planted;
  std::optional<Positions> positions;
  bool sequential = false;  // Some of its nodes are dispatched sequentially (ir/plan/sequential.h).
  std::vector<std::unique_ptr<PlanRun>> runs;  // One for each run in flight.
  uint64_t prepared = 0;
  size_t active = 0;
  bool suspended = false;  // It has no memory on devices, and so no `runs`.
};

inline bool is_discrete(const HostPlan& plan) { return plan.devices[0]->device->discrete(); }
inline bool has_values(const HostPlan& plan) { return plan.devices[0]->device->has_values(); }

// Null if the member is not of this host.
inline DevicePlan* device_of(const HostPlan& plan, const Member& member) {
  const auto found = std::find_if(plan.devices.begin(), plan.devices.end(),
                                  [&](const auto& device) { return device->member == member; });
  return found == plan.devices.end() ? nullptr : found->get();
}

}  // namespace gangway
