#include "executor/host/laid_out_plan.h"

#include <optional>

#include "executor/host/plan_areas.h"
#include "executor/host/plan_groups.h"
#include "executor/host/share_entries.h"
#include "ir/boxes/boxes.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// The region for the device's temporaries of an overlaid plan; null: they are in an arena of the
// plan's own.
std::shared_ptr<OverlayRegion> region_of(const PlanRank& rank, OverlayRegions& regions) {
  if (!rank.plan->overlaid || rank.device->stream().discrete()) return nullptr;
  std::shared_ptr<OverlayRegion>& region = regions[rank.member.device];
  if (region == nullptr) region = std::make_shared<OverlayRegion>(rank.device->memory());
  return region;
}

LaidOutShare share_of(const CompiledHostPlan& plan, size_t rank, OverlayRegions& regions) {
  LaidOutShare share;
  static_cast<PlanRank&>(share) = plan.ranks[rank];
  share.functions = plan.functions[rank];
  share.region = region_of(share, regions);
  share.layout =
      lay_out(*share.plan, share.member, share.functions,
              share.region == nullptr ? plan.init_arena : 0, share.device->stream().discrete());
  add_entries(share, plan.positions);
  return share;
}

DeviceNeed need_of(const LaidOutPlan& plan, const LaidOutShare& share) {
  const Plan& facts = *plan.plan;
  DeviceNeed need{.device = share.member.device, .arena = share.layout.arena_bytes};
  if (share.region != nullptr) {
    need.arena = plan.init_arena;
    need.overlaid = share.layout.arena_bytes;
  }
  for (size_t s = 0; s < facts.states.size(); ++s) {
    if (plan.inits[s].empty()) continue;
    const PlanValue& value = facts.values[facts.states[s].value];
    if (mesh_device_of(facts.slices[value.slice], share.member) != kNone) {
      need.state += block_bytes(value.local_type.bytes());
    }
  }
  need.slots = (share.layout.slot_bytes + share.layout.bound_bytes + own_inbox_bytes(share)) *
               facts.runs_in_flight_max;
  // Memory that peers write is the host's.
  need.slots += share.device->stream().discrete() ? block_bytes(staging_bytes(plan, share))
                                                  : shared_bytes(plan, share.member);
  return need;
}

// The ranks of one device need its memory at the same time.
void add_to(std::vector<DeviceNeed>& needs, const DeviceNeed& more) {
  if (needs.empty() || needs.back().device != more.device) {
    needs.push_back(more);
    return;
  }
  DeviceNeed& to = needs.back();
  to.arena += more.arena;
  to.state += more.state;
  to.slots += more.slots;
  to.overlaid += more.overlaid;
}

// Adds the needs of all ranks. Returns an error if a device has less memory than that in total.
std::optional<Error> add_needs(const LaidOutPlan& plan, std::vector<DeviceNeed>& needs) {
  std::optional<Error> too_large;
  for (const LaidOutShare& share : plan.shares) {
    add_to(needs, need_of(plan, share));
    const DeviceMemory& memory = share.device->memory();
    if (const int64_t bytes = needs.back().total(); bytes > memory.budget())
      too_large = memory.would_fit(bytes, cat("program \"", plan.plan->name, "\"")).error();
  }
  return too_large;
}

// The rows of a value that a rank has; empty if it does not take part.
Box part_of(const PlanOnHost& plan, const PlanRank& rank, uint32_t value) {
  const TensorShards& tensor = plan.shards[value];
  const Shard* shard = tensor.on(rank.member.device, rank.member.rank);
  if (shard == nullptr) return {};
  return box_of(tensor.type, {tensor.mesh, tensor.sharding}, shard->mesh_device);
}

void add_sources(LaidOutPlan& plan) {
  for (size_t i = 0; i < plan.source_specs.size(); ++i) {
    const std::optional<DataSourceSpec>& spec = plan.source_specs[i];
    const auto text = [&] {
      return spec->path.empty() ? nullptr : plan.texts.by_path.at(spec->path);
    };
    plan.sources.push_back(!spec ? nullptr : make_source(*spec, text()));
    const uint32_t value = plan.plan->nodes[plan.plan->sources[i]].results[0];
    for (LaidOutShare& share : plan.shares)
      share.source_parts.push_back(part_of(plan, share, value));
  }
}

}  // namespace

Result<LaidOutPlan> laid_out(CompiledHostPlan plan, const HostDevices& devices,
                             OverlayRegions& regions, Installed& installed) {
  LaidOutPlan made(std::move(plan));
  made.plan_groups = find_groups(made);
  for (size_t r = 0; r < made.ranks.size(); ++r) made.shares.push_back(share_of(made, r, regions));
  if (const std::optional<Error> too_large = add_needs(made, installed.needs)) return *too_large;
  add_sources(made);
  for (const auto& [path, text] : made.texts.by_path)
    installed.texts.push_back({path, text->bytes.size(), to_string(text->hash)});
  // New memory for each plan: hosts of earlier plans that were lost may have stopped only, and they
  // write into those plans' memory when they go on.
  made.memory = devices.link().offer(areas_of(made));
  installed.offers = {{made.self, made.memory->offer()}};
  installed.writes_to = hosts_written(made);
  return Result<LaidOutPlan>(std::move(made));
}

}  // namespace gangway
