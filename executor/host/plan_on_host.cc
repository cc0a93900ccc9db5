#include "executor/host/plan_on_host.h"

#include <algorithm>

#include "ir/plan/plan_check.h"
#include "ir/plan/plan_members.h"
#include "ir/plan/sequential.h"

namespace gangway {
namespace {

std::vector<PlanRank> ranks_of(const PlanRequest& request, const HostDevices& devices) {
  std::vector<PlanRank> ranks;
  for (const Member& member : members_on(*request.plan, request.self)) {
    ranks.push_back({.id = request.id,
                     .plan = request.plan,
                     .device = devices.all[member.device].get(),
                     .member = member,
                     .order_log = devices.options.order_log});
  }
  return ranks;
}

TensorShards shards_of(const PlanOnHost& plan, const PlanValue& value) {
  const PlanSlice& slice = plan.plan->slices[value.slice];
  TensorShards tensor{value.type, value.local_type, slice.mesh, value.sharding, {}};
  for (const PlanRank& rank : plan.ranks) {
    const uint32_t mesh_device = mesh_device_of(slice, rank.member);
    if (mesh_device != kNone)
      tensor.shards.push_back({rank.member.device, rank.member.rank, mesh_device, nullptr});
  }
  return tensor;
}

std::optional<DataSourceSpec> spec_of(const PlanOnHost& plan, const PlanNode& source) {
  const uint32_t value = source.results[0];
  if (plan.shards[value].shards.empty() || !has_values(plan)) return std::nullopt;
  return read_source(source.attrs, plan.plan->values[value].type);
}

}  // namespace

PlanOnHost plan_on_host(const PlanRequest& request, const HostDevices& devices) {
  require_valid_on(*request.plan, request.self, static_cast<uint32_t>(devices.all.size()));
  PlanOnHost plan{request,
                  Positions(*request.plan),
                  is_sequential(*request.plan),
                  ranks_of(request, devices),
                  {},
                  {}};
  for (const PlanValue& value : request.plan->values) plan.shards.push_back(shards_of(plan, value));
  for (const uint32_t source : request.plan->sources)
    plan.source_specs.push_back(spec_of(plan, request.plan->nodes[source]));
  return plan;
}

uint32_t rank_of(const PlanOnHost& plan, const Member& member) {
  const auto found = std::ranges::find(plan.ranks, member, &PlanRank::member);
  return found == plan.ranks.end() ? kNone : static_cast<uint32_t>(found - plan.ranks.begin());
}

}  // namespace gangway
