// LaidOutPlan: a plan of which it is known what each device replays, where every value lies, and in
// which groups devices meet. Nothing is allocated on devices yet; the memory that peers write is.
//
// Threads: reactor thread.
// Errors: kUnimplemented for a group that a device can't join.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "executor/collectives/hosts/group_links.h"
#include "executor/host/compiled_host_plan.h"
#include "executor/links/host_link.h"
#include "executor/store/overlay_region.h"
#include "protocol/install.h"
#include "runtime/base/result.h"

namespace gangway {

// One row of a group along some axes, or the gate, in which devices of this host are members.
struct PlanGroup {
  uint32_t spec = kNone;  // Index in CompiledHostPlan::groups; kNone: the gate.
  uint32_t row = 0;       // Index in GroupSpec::rows.
  GroupView view;
  std::vector<Member> here;  // In the order of view.here().
  // The group has only the lowest rank of each device: it is used after the ranks of each device
  // have reduced. The entry behind it is the group of all ranks.
  bool of_devices = false;
};

struct LaidOutPlan : CompiledHostPlan {
  explicit LaidOutPlan(CompiledHostPlan&& given) : CompiledHostPlan(std::move(given)) {}

  std::vector<PlanGroup> plan_groups;
  std::vector<LaidOutShare> shares;  // Indexed by rank.
  // Indexed by Plan::sources; null: not here.
  std::vector<std::unique_ptr<const DataSource>> sources;
  std::shared_ptr<OwnMemory> memory;  // Memory in which this host's devices receive.
};

// The regions of overlaid plans; keys are devices.
using OverlayRegions = std::map<uint32_t, std::shared_ptr<OverlayRegion>>;

// Fills in installed.needs, and for a plan that fits its texts, its offer to its peers, and to
// which hosts it writes. The result is an error if a device has less memory in total than the plan
// needs there: such a plan offers nothing.
Result<LaidOutPlan> laid_out(CompiledHostPlan plan, const HostDevices& devices,
                             OverlayRegions& regions, Installed& installed);

}  // namespace gangway
