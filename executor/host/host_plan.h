// HostPlan: a plan installed on this host: what its devices share.
//
// Life: compiling (on a thread of the compiler's, perhaps) -> installed (laid out, nothing
// allocated) -> linked (peers' memory opened) -> ready (allocated, initialised) -> closing
// (uninstalled, its last runs end).
// Threads: reactor thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/devices/compiler.h"
#include "executor/host/host.h"
#include "executor/replay/device_plan.h"
#include "executor/replay/device_run.h"
#include "executor/sources/data_source.h"
#include "executor/store/tensor_shards.h"
#include "executor/transfers/segment_directory.h"
#include "runtime/fibers/future.h"

namespace gangway {

// The groups of one slice along some axes, and the most bytes that one of their collectives moves.
struct GroupSpec {
  uint32_t slice = 0;
  std::string axes;
  int64_t bytes_max = 0;
  std::vector<std::vector<uint32_t>> groups;  // Mesh devices.
  std::string at;                             // The user's line of one of them.
};

// A run in flight: its part on each device of this host.
struct PlanRun {
  std::vector<std::unique_ptr<DeviceRun>> devices;  // As HostPlan::devices.
  RunId run;
  size_t running = 0;  // Devices that have not finished.
};

enum class PlanStage : uint8_t { kCompiling, kInstalled, kLinked, kReady, kClosing };

struct HostPlan {
  PlanId id;
  std::shared_ptr<const Plan> plan;
  uint32_t self = 0;
  StateScope scope;
  PlanStage stage = PlanStage::kCompiling;
  std::shared_ptr<CompileJob> compiling;
  Promise<Installed> installed;

  // By Plan::states, then by Device::family(); none: not here, or not new.
  std::vector<std::map<const void*, std::shared_ptr<const CompiledFunction>>> inits;
  std::vector<GroupSpec> groups;
  std::vector<std::unique_ptr<DevicePlan>> devices;
  std::vector<std::unique_ptr<const DataSource>> sources;  // By Plan::sources; null: not here.

  SharedSegment segment;             // What this host's devices receive in.
  std::vector<SharedSegment> peers;  // By host; empty for this one.
  std::vector<SharedSegment> bells;  // By host; empty for this one.
  // By node and mesh device of the receiver.
  std::map<std::pair<uint32_t, uint32_t>, std::shared_ptr<DeviceLink>> links;

  std::vector<std::unique_ptr<PlanRun>> runs;  // One for each run in flight.
  uint64_t started = 0;
  size_t active = 0;

  Member member_of(uint32_t device) const { return {self, device}; }
  TensorShards shards_of(uint32_t value) const;
};

// Names of areas in a plan's segments, equal on all hosts.
std::string rank_area(const GroupSpec& group, size_t index, size_t rank);
std::string gate_area(const Member& member);
std::string inbox_area(uint32_t node, uint32_t mesh_device);

// The steps of installation, in order: host_install.cc, host_link.cc. Function f of the plan has
// the number f in `job`.
void add_devices(HostPlan& plan, const std::vector<std::unique_ptr<Device>>& devices);
void add_functions(const HostPlan& plan, CompileJob& job);
void take_functions(HostPlan& plan, const CompileJob& job);
void add_entries(HostPlan& plan, DevicePlan& device);
int64_t shared_bytes(const HostPlan& plan, const DevicePlan& device);
// What collectives need of a discrete device's own memory.
int64_t staging_bytes(const HostPlan& plan, const DevicePlan& device);
// What a device receives over links, in one run: in its own memory.
int64_t own_inbox_bytes(const DevicePlan& device);
SharedSegment make_segment(const HostPlan& plan);
using BellOf = std::function<Bell(const Member&)>;
void link_device(HostPlan& plan, DevicePlan& device, const BellOf& bell_of);
// Once memory is allocated: where the links of the plan lead.
void place_links(HostPlan& plan);

}  // namespace gangway
