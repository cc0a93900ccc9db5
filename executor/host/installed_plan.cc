#include "executor/host/installed_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "executor/host/plan_areas.h"
#include "executor/host/plan_groups.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

std::string name_of(const PlanOnHost& plan) { return cat("program \"", plan.plan->name, "\""); }

// Ranks of a device have separate ranges of its region.
void place_arenas(const LinkedPlan& plan, PlanMemory& memory) {
  std::map<uint32_t, int64_t> bytes;
  for (const LaidOutShare& share : plan.shares)
    bytes[share.member.device] += share.layout.arena_bytes;
  struct Place {
    std::shared_ptr<std::byte> first;
    int64_t used = 0;
  };
  std::map<uint32_t, Place> places;
  for (size_t r = 0; r < plan.shares.size(); ++r) {
    const LaidOutShare& share = plan.shares[r];
    if (share.region == nullptr) continue;
    Place& place = places[share.member.device];
    if (place.first == nullptr)
      place.first = share.region->place(bytes[share.member.device], name_of(plan));
    memory[r]->overlaid = {place.first, place.first.get() + place.used};
    place.used += share.layout.arena_bytes;
  }
}

// Counts bytes of shared memory as the device's for as long as the result is held.
std::shared_ptr<void> reserve(DeviceMemory& memory, int64_t bytes, const std::string& what) {
  if (Result<void> reserved = memory.reserve(bytes, what); !reserved.ok()) throw reserved.error();
  return {&memory, [kept = memory.shared_from_this(), bytes](void*) { kept->unreserve(bytes); }};
}

void allocate_pools(const LaidOutShare& share, ShareMemory& to, const std::string& what) {
  const Plan& facts = *share.plan;
  const auto pool = [&](uint32_t value) {
    return std::make_shared<BufferPool>(share.device->memory(),
                                        block_bytes(facts.values[value].local_type.bytes()), what,
                                        facts.runs_in_flight_max);
  };
  to.input_pools.resize(facts.inputs.size());
  to.output_pools.resize(facts.outputs.size());
  for (size_t i = 0; i < facts.inputs.size(); ++i) {
    const uint32_t value = facts.inputs[i];
    if (share.layout.values[value].kind == ValuePlace::Kind::kAbsent) continue;
    if (facts.values[value].local_type.bytes() <= static_cast<int64_t>(kSmallBytesMax)) continue;
    to.input_pools[i] = pool(value);
  }
  for (const DeviceOutput& output : share.outputs)
    to.output_pools[output.output] = pool(output.value);
}

// Memory that only discrete devices need: copies of the slots in host memory, and what collectives
// and links use on the device.
void allocate_discrete(const LinkedPlan& plan, size_t rank, ShareMemory& to,
                       const std::string& what) {
  const LaidOutShare& share = plan.shares[rank];
  DeviceMemory& memory = share.device->memory();
  const int64_t runs = plan.plan->runs_in_flight_max;
  to.staging = memory.host_memory(share.layout.slot_bytes * runs);
  to.meeting_place = allocate_buffer(memory, block_bytes(staging_bytes(plan, share)), what);
  if (const int64_t bytes = own_inbox_bytes(share); bytes > 0)
    to.inboxes = allocate_buffer(memory, bytes * runs, what);
  std::byte* place = to.meeting_place->data();
  for (const auto& collective : plan.links.shares[rank].collectives) {
    collective->use_staging(place);
    place += collective->staging_bytes();
  }
}

void allocate_share(const LinkedPlan& plan, size_t rank, WithInitialisers initialisers,
                    ShareMemory& to) {
  const LaidOutShare& share = plan.shares[rank];
  const std::string what = name_of(plan);
  DeviceMemory& memory = share.device->memory();
  const bool overlaid = share.region != nullptr;
  if (!overlaid || initialisers == WithInitialisers::kYes)
    to.arena = allocate_buffer(memory, overlaid ? plan.init_arena : share.layout.arena_bytes, what);
  to.slots = allocate_buffer(memory, share.layout.slot_bytes * plan.plan->runs_in_flight_max, what);
  if (share.device->stream().discrete()) {
    allocate_discrete(plan, rank, to, what);
  } else {
    to.reserved = reserve(memory, shared_bytes(plan, share.member), what);
  }
  allocate_pools(share, to, what);
}

// Finds where the rank's links write to: in the memory of the receivers.
void place_links(const LinkedPlan& plan, size_t rank, const PlanMemory& memory) {
  const LaidOutShare& share = plan.shares[rank];
  std::vector<LinkedInbox>& inboxes = memory[rank]->linked_inboxes;
  inboxes.resize(share.channels);
  for (const Entry& entry : share.entries) {
    if (entry.channel == kNone) continue;
    if (plan.links.shares[rank].channels[entry.channel].link == nullptr) continue;
    const TransferEnds ends = ends_of(share, entry);
    const uint32_t receiver = rank_of(plan, ends.receiver);
    const PlanLayout& layout = plan.shares[receiver].layout;
    const uint32_t value = plan.plan->nodes[ends.receive].results[0];
    inboxes[entry.channel] = {memory[receiver]->inboxes->data() + layout.values[value].offset,
                              layout.inbox_bytes};
  }
}

}  // namespace

PlanMemory allocate_memory(const LinkedPlan& plan, WithInitialisers initialisers) {
  PlanMemory memory;
  for (size_t r = 0; r < plan.ranks.size(); ++r) memory.push_back(std::make_unique<ShareMemory>());
  place_arenas(plan, memory);
  for (size_t r = 0; r < plan.ranks.size(); ++r) allocate_share(plan, r, initialisers, *memory[r]);
  for (size_t r = 0; r < plan.ranks.size(); ++r) place_links(plan, r, memory);
  return memory;
}

InstalledPlan::InstalledPlan(LinkedPlan&& given, PlanMemory&& on_devices)
    : LinkedPlan(std::move(given)) {
  for (size_t r = 0; r < shares.size(); ++r) {
    devices.push_back(std::make_unique<DevicePlan>(shares[r], links.shares[r]));
    devices[r]->states.resize(plan->values.size());
  }
  return_to_devices(std::move(on_devices));
}

void InstalledPlan::leave_devices() {
  for (const auto& device : devices) {
    device->memory = nullptr;
    device->states.assign(device->states.size(), nullptr);
    device->shared_states.clear();
  }
}

void InstalledPlan::return_to_devices(PlanMemory&& on_devices) {
  for (size_t r = 0; r < devices.size(); ++r) devices[r]->memory = std::move(on_devices[r]);
}

std::unique_ptr<InstalledPlan> ready(LinkedPlan& plan) {
  PlanMemory memory = allocate_memory(plan, WithInitialisers::kYes);
  return std::make_unique<InstalledPlan>(std::move(plan), std::move(memory));
}

namespace {

// From the plan's pool, or beside it: a small input has no pool, nor has a suspended program.
BufferPtr input_buffer(const DevicePlan& device, uint32_t input, int64_t bytes) {
  const ShareMemory* const memory = device.memory.get();
  if (memory != nullptr && memory->input_pools[input] != nullptr)
    return memory->input_pools[input]->take();
  return allocate_buffer(device.laid.device->memory(), bytes, "array");
}

}  // namespace

TensorShards new_input(const InstalledPlan& plan, uint32_t input) {
  GW_REQUIRE(input < plan.plan->inputs.size(), "put: plan ", plan.id, " has no input ", input);
  TensorShards tensor = plan.shards[plan.plan->inputs[input]];
  for (Shard& shard : tensor.shards) {
    for (const auto& device : plan.devices) {
      if (device->laid.holds(shard))
        shard.buffer = input_buffer(*device, input, tensor.local.bytes());
    }
  }
  return tensor;
}

void use_state(InstalledPlan& plan, uint32_t value, const State& state) {
  for (const auto& device : plan.devices) {
    const Member& member = device->laid.member;
    const Shard* shard = state.shards.on(member.device, member.rank);
    if (shard == nullptr) continue;
    device->states[value] = shard->buffer;
    std::vector<const void*>& shared = device->shared_states;
    const void* const address = shard->buffer.get();
    shared.insert(std::lower_bound(shared.begin(), shared.end(), address, std::less<>()), address);
  }
}

}  // namespace gangway
