#include "executor/host/host_install.h"

#include <algorithm>

#include "ir/graph/bodies.h"
#include "ir/plan/rates.h"
#include "runtime/base/error.h"

namespace gangway {

namespace {

void add(const CompiledFunction::CollectiveNeed& need, CompiledFunction::CollectiveNeed& all) {
  all.bytes_max = std::max(all.bytes_max, need.bytes_max);
  for (size_t kind = 0; kind < kCollectiveKinds; ++kind) {
    if (!all.kinds.has(static_cast<CollectiveKind>(kind))) all.at[kind] = need.at[kind];
  }
  all.kinds.add(need.kinds);
}

void add_groups(HostPlan& plan, const PlanNode& node, const CompiledFunction& function) {
  const uint32_t slice = node.slice;
  for (const CompiledFunction::CollectiveNeed& need : function.collective_needs()) {
    auto same = [&](const GroupSpec& group) {
      return group.slice == slice && group.need.axes == need.axes;
    };
    const auto found = std::find_if(plan.groups.begin(), plan.groups.end(), same);
    if (found == plan.groups.end()) {
      plan.groups.push_back({slice, need, groups_along(plan.plan->slices[slice].mesh, need.axes)});
    } else {
      add(need, found->need);
    }
  }
}

}  // namespace

namespace {

TensorShards shards_of(const HostPlan& plan, const PlanValue& value) {
  const PlanSlice& slice = plan.plan->slices[value.slice];
  TensorShards tensor{value.type, value.local_type, slice.mesh, value.sharding, {}};
  for (const auto& device : plan.devices) {
    const uint32_t mesh_device = mesh_device_of(slice, device->member);
    if (mesh_device != kNone)
      tensor.shards.push_back({device->member.device, device->member.rank, mesh_device, nullptr});
  }
  return tensor;
}

}  // namespace

void add_devices(HostPlan& plan, const std::vector<std::unique_ptr<Device>>& devices) {
  for (const Member& member : plan_members(*plan.plan)) {
    if (member.host != plan.self) continue;
    auto device = std::make_unique<DevicePlan>();
    device->plan = plan.plan;
    device->device = devices[member.device].get();
    device->member = member;
    device->functions.resize(plan.plan->functions.size());
    plan.devices.push_back(std::move(device));
  }
  for (const PlanValue& value : plan.plan->values) plan.shards.push_back(shards_of(plan, value));
}

namespace {

// body(call, device) for each call that a device of this host takes part in.
template <class Body>
void for_each_call(const HostPlan& plan, Body body) {
  for (const PlanNode& node : plan.plan->nodes) {
    if (node.kind != PlanNodeKind::kCall) continue;
    for (const auto& device : plan.devices) {
      if (mesh_device_of(plan.plan->slices[node.slice], device->member) != kNone)
        body(node, *device);
    }
  }
}

}  // namespace

void add_functions(const HostPlan& plan, CompileJob& job) {
  for_each_call(plan, [&](const PlanNode& node, DevicePlan& device) {
    job.add(node.function, *device.device, plan.plan->functions[node.function]);
  });
}

void take_functions(HostPlan& plan, const CompileJob& job) {
  for_each_call(plan, [&](const PlanNode& node, DevicePlan& device) {
    device.functions[node.function] = job.made(node.function, *device.device);
    add_groups(plan, node, *device.functions[node.function]);
  });
}

namespace {

class EntryMaker {
 public:
  EntryMaker(const HostPlan& plan, DevicePlan& device)
      : plan_(*plan.plan), positions_(*plan.positions), device_(device) {
    device_.has_commit = has_commit(plan_);
    for (const PlanNode& node : plan_.nodes) {
      is_guarded_ |=
          node.kind == PlanNodeKind::kCall && plan_.functions[node.function].finite_result != kNone;
    }
  }

  void run() {
    for (uint32_t n = 0; n < plan_.nodes.size(); ++n) {
      if (takes_part(plan_, plan_.nodes[n], device_.member)) add(n);
      device_.entries_end.push_back(static_cast<uint32_t>(device_.entries.size()));
    }
    add_positions();
    find_meetings();
    device_.modelled_ns = run_modelled_ns();
    device_.needs_others = std::ranges::any_of(device_.entries, [](const Entry& entry) {
      return entry.kind != EntryKind::kCall || entry.meets_others;
    });
    add_outputs();
  }

 private:
  void add(uint32_t n) {
    const PlanNode& node = plan_.nodes[n];
    switch (node.kind) {
      case PlanNodeKind::kCall: return add_call(n, node);
      case PlanNodeKind::kCommit: return add_commit(n, node);
      case PlanNodeKind::kSource: return add_source(n, node);
      case PlanNodeKind::kSend: return add_transfer(n, EntryKind::kSend, node.inputs[0].value);
      case PlanNodeKind::kReceive: return add_transfer(n, EntryKind::kReceive, node.results[0]);
      case PlanNodeKind::kGate:
        device_.entries.push_back({.kind = EntryKind::kGate, .node = n});
        return;
      case PlanNodeKind::kIf:
      case PlanNodeKind::kWhile: break;
    }
    GW_ASSERT(false, "a kind of node that the plan's check refuses");
  }

  bool bound(uint32_t value) const {
    return device_.layout.values[value].kind == ValuePlace::Kind::kBound;
  }

  // Adds an entry for each section. The first prepares the call's frame, the last checks the
  // results that must be finite.
  void add_call(uint32_t n, const PlanNode& node) {
    const CompiledFunction& function = *device_.functions[node.function];
    const LocalFunction& local = plan_.functions[node.function];
    const size_t first = device_.entries.size();
    add_sections(n, node, function, 0, function.commit_step());
    device_.entries.back().guarded = is_guarded_;
    if (local.finite_result != kNone)
      device_.entries.back().finite_value = node.results[local.finite_result];
    Entry& entry = device_.entries[first];
    for (uint32_t i = 0; i < node.inputs.size(); ++i) {
      const uint32_t value = node.inputs[i].value;
      if (bound(value)) entry.patches.push_back({i, value});
      add_arguments(entry, value);
    }
    for (uint32_t r = 0; r < node.results.size(); ++r) {
      const auto base = static_cast<uint32_t>(node.inputs.size()) + r;
      if (bound(node.results[r])) entry.patches.push_back({base, node.results[r]});
    }
    if (!entry.patches.empty()) device_.patched.push_back(static_cast<uint32_t>(first));
  }

  void add_commit(uint32_t n, const PlanNode& node) {
    const CompiledFunction& function = *device_.functions[plan_.nodes[node.call].function];
    add_sections(n, node, function, function.commit_step(), function.step_count());
  }

  // Adds the steps [begin, end) of a call or a commit.
  void add_sections(uint32_t n, const PlanNode& node, const CompiledFunction& function,
                    uint32_t begin, uint32_t end) {
    const bool commits = node.kind == PlanNodeKind::kCommit;
    const uint32_t call = commits ? node.call : n;
    const std::vector<uint32_t> steps = function.section_steps();
    const SectionRange sections = positions_.sections(n, node.slice);
    const uint32_t count = std::max(1u, sections.count);
    for (uint32_t s = 0; s < count; ++s) {
      const bool last = s + 1 == count;
      device_.entries.push_back({.kind = commits ? EntryKind::kCommit : EntryKind::kCall,
                                 .node = call,
                                 .plan_node = commits ? n : kNone,
                                 .function = &function,
                                 .begin = s == 0 ? begin : steps[sections.first + s],
                                 .end = last ? end : steps[sections.first + s + 1],
                                 .first = s == 0});
    }
  }

  void add_source(uint32_t n, const PlanNode& node) {
    uint32_t source = kNone;
    for (uint32_t s = 0; s < plan_.sources.size(); ++s) {
      if (plan_.sources[s] == n) source = s;
    }
    device_.entries.push_back(
        {.kind = EntryKind::kSource, .node = n, .value = node.results[0], .source = source});
  }

  void add_transfer(uint32_t n, EntryKind kind, uint32_t value) {
    device_.entries.push_back({.kind = kind,
                               .node = n,
                               .value = value,
                               .channel = static_cast<uint32_t>(device_.channels.size())});
    if (kind == EntryKind::kSend) add_arguments(device_.entries.back(), value);
    device_.channels.emplace_back();
  }

  // Adds the indices of the program's inputs that are this value, if any.
  void add_arguments(Entry& entry, uint32_t value) {
    for (uint32_t a = 0; a < plan_.inputs.size(); ++a) {
      if (plan_.inputs[a] == value) entry.arguments.push_back(a);
    }
  }

  void add_outputs() {
    std::vector<bool> taken(plan_.values.size(), false);
    for (uint32_t o = 0; o < plan_.outputs.size(); ++o) {
      const uint32_t value = plan_.outputs[o];
      const PlanValue& facts = plan_.values[value];
      if (device_.layout.values[value].kind == ValuePlace::Kind::kAbsent) continue;
      const bool first_use = bound(value) && !taken[value];
      taken[value] = true;
      const bool small = facts.local_type == facts.type &&
                         facts.type.bytes() <= static_cast<int64_t>(kSmallBytesMax) &&
                         mesh_device_of(plan_.slices[facts.slice], device_.member) == 0;
      device_.outputs.push_back({o, value, first_use, small});
    }
  }

  // An entry has one position; the gate has one in each slice.
  void add_positions() {
    device_.entry_in_order.assign(positions_.total(), kNone);
    device_.entry_at.resize(plan_.slices.size());
    for (uint32_t s = 0; s < plan_.slices.size(); ++s) {
      if (mesh_device_of(plan_.slices[s], device_.member) != kNone)
        device_.entry_at[s].assign(positions_.count(s), kNone);
    }
    uint32_t entry = 0;
    for (uint32_t n = 0; n < plan_.nodes.size(); ++n) {
      const uint32_t in_order = positions_.in_order(n).first;
      if (plan_.nodes[n].kind == PlanNodeKind::kGate) {
        for (uint32_t s = 0; s < plan_.slices.size(); ++s) {
          if (!device_.entry_at[s].empty()) device_.entry_at[s][positions_.gate(s)] = entry;
        }
        device_.entry_in_order[in_order] = entry++;
        continue;
      }
      std::vector<uint32_t>& entry_at = device_.entry_at[plan_.nodes[n].slice];
      if (entry_at.empty()) continue;
      const Positions::Range range = positions_.of(n, plan_.nodes[n].slice);
      for (uint32_t k = 0; k < range.count; ++k) {
        entry_at[range.first + k] = entry;
        device_.entry_in_order[in_order + k] = entry++;
      }
    }
    GW_ASSERT(entry == device_.entries.size());
    for (uint32_t s = 0; s < plan_.slices.size(); ++s) {
      if (!device_.entry_at[s].empty() && plan_.slices[s].ranges[0].host == device_.member.host &&
          !device_.device->discrete())
        add_told_slice(s);
    }
  }

  void add_told_slice(uint32_t slice) {
    const auto index = static_cast<uint32_t>(device_.told_slices.size());
    ToldSlice& told = device_.told_slices.emplace_back();
    told.slice = slice;
    told.ended.assign(device_.entries.size() + 1, 0);
    device_.told_slice_of.resize(device_.entries.size(), kNone);
    for (uint32_t position = 0; position < device_.entry_at[slice].size(); ++position) {
      const uint32_t entry = device_.entry_at[slice][position];
      if (entry == kNone) continue;
      told.ended[entry + 1] = position + 1;
      device_.told_slice_of[entry] = index;
    }
    for (size_t e = 1; e < told.ended.size(); ++e)
      told.ended[e] = std::max(told.ended[e], told.ended[e - 1]);
  }

  // The gate meets others too: when it does not let the run pass, all devices replay its
  // collectives.
  void find_meetings() {
    for (Entry& entry : device_.entries) {
      entry.meets_others =
          entry.kind == EntryKind::kGate ||
          (entry.function != nullptr && entry.function->has_collective(entry.begin, entry.end));
    }
  }

  // Modelled time of a run, or kNever if it is longer than a short run. Nobody knows the time of a
  // user's kernel, and a body may hold one.
  int64_t run_modelled_ns() const {
    int64_t sum_ns = 0;
    for (const Entry& entry : device_.entries) {
      if (entry.function == nullptr) continue;
      const Function& function = *plan_.functions[plan_.nodes[entry.node].function].function;
      if (entry.function->step_count() > function.nodes.size()) return kNever;  // It has bodies.
      for (NodeId id = entry.begin; id < entry.end; ++id) {
        const Op op = function.nodes[id].op;
        if (op == Op::custom_call || row(op).busy_ns != nullptr || shares_body(op)) return kNever;
        sum_ns += modelled_ns(rates_of("cpu"), function, id);
        if (sum_ns > kShortNs) return kNever;
      }
    }
    return sum_ns;
  }

  const Plan& plan_;
  const Positions& positions_;
  DevicePlan& device_;
  bool is_guarded_ = false;  // A call of the plan has a result that must be finite.
};

}  // namespace

void add_entries(HostPlan& plan, DevicePlan& device) { EntryMaker(plan, device).run(); }

}  // namespace gangway
