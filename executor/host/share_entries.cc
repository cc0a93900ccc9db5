#include "executor/host/share_entries.h"

#include <algorithm>

#include "ir/graph/bodies.h"
#include "ir/plan/plan_members.h"
#include "ir/plan/rates.h"
#include "protocol/messages.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

class EntryMaker {
 public:
  EntryMaker(LaidOutShare& share, const Positions& positions)
      : plan_(*share.plan), positions_(positions), share_(share) {
    share_.has_commit = has_commit(plan_);
    for (const PlanNode& node : plan_.nodes) {
      is_guarded_ |=
          node.kind == PlanNodeKind::kCall && plan_.functions[node.function].finite_result != kNone;
    }
  }

  void run() {
    for (uint32_t n = 0; n < plan_.nodes.size(); ++n) {
      if (takes_part(plan_, plan_.nodes[n], share_.member)) add(n);
      share_.entries_end.push_back(static_cast<uint32_t>(share_.entries.size()));
    }
    add_positions();
    mark_entries_that_meet();
    share_.modelled_ns = run_modelled_ns();
    share_.needs_others = std::ranges::any_of(share_.entries, [](const Entry& entry) {
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
        share_.entries.push_back({.kind = EntryKind::kGate, .node = n});
        return;
    }
    GW_ASSERT(false, "a kind of node that the plan's check refuses");
  }

  bool bound(uint32_t value) const {
    return share_.layout.values[value].kind == ValuePlace::Kind::kBound;
  }

  // Adds an entry for each section. The first prepares the call's frame, the last checks the
  // results that must be finite.
  void add_call(uint32_t n, const PlanNode& node) {
    const CompiledFunction& function = *share_.functions[node.function];
    const LocalFunction& local = plan_.functions[node.function];
    const size_t first = share_.entries.size();
    add_sections(n, node, function, 0, function.commit_step());
    share_.entries.back().guarded = is_guarded_;
    if (local.finite_result != kNone)
      share_.entries.back().finite_value = node.results[local.finite_result];
    Entry& entry = share_.entries[first];
    for (uint32_t i = 0; i < node.inputs.size(); ++i) {
      const uint32_t value = node.inputs[i].value;
      if (bound(value)) entry.patches.push_back({i, value});
      add_arguments(entry, value);
    }
    for (uint32_t r = 0; r < node.results.size(); ++r) {
      const auto base = static_cast<uint32_t>(node.inputs.size()) + r;
      if (bound(node.results[r])) entry.patches.push_back({base, node.results[r]});
    }
    if (!entry.patches.empty()) share_.patched.push_back(static_cast<uint32_t>(first));
  }

  void add_commit(uint32_t n, const PlanNode& node) {
    const CompiledFunction& function = *share_.functions[plan_.nodes[node.call].function];
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
      share_.entries.push_back({.kind = commits ? EntryKind::kCommit : EntryKind::kCall,
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
    share_.entries.push_back(
        {.kind = EntryKind::kSource, .node = n, .value = node.results[0], .source = source});
  }

  void add_transfer(uint32_t n, EntryKind kind, uint32_t value) {
    share_.entries.push_back(
        {.kind = kind, .node = n, .value = value, .channel = share_.channels++});
    if (kind == EntryKind::kSend) add_arguments(share_.entries.back(), value);
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
      if (share_.layout.values[value].kind == ValuePlace::Kind::kAbsent) continue;
      const bool first_use = bound(value) && !taken[value];
      taken[value] = true;
      const bool small = facts.local_type == facts.type &&
                         facts.type.bytes() <= static_cast<int64_t>(kSmallBytesMax) &&
                         mesh_device_of(plan_.slices[facts.slice], share_.member) == 0;
      share_.outputs.push_back({o, value, first_use, small});
    }
  }

  // An entry has one position; the gate has one in each slice.
  void add_positions() {
    share_.entry_in_order.assign(positions_.total(), kNone);
    share_.entry_at.resize(plan_.slices.size());
    for (uint32_t s = 0; s < plan_.slices.size(); ++s) {
      if (mesh_device_of(plan_.slices[s], share_.member) != kNone)
        share_.entry_at[s].assign(positions_.count(s), kNone);
    }
    uint32_t entry = 0;
    for (uint32_t n = 0; n < plan_.nodes.size(); ++n) {
      const uint32_t in_order = positions_.in_order(n).first;
      if (plan_.nodes[n].kind == PlanNodeKind::kGate) {
        for (uint32_t s = 0; s < plan_.slices.size(); ++s) {
          if (!share_.entry_at[s].empty()) share_.entry_at[s][positions_.gate(s)] = entry;
        }
        share_.entry_in_order[in_order] = entry++;
        continue;
      }
      std::vector<uint32_t>& entry_at = share_.entry_at[plan_.nodes[n].slice];
      if (entry_at.empty()) continue;
      const Positions::Range range = positions_.of(n, plan_.nodes[n].slice);
      for (uint32_t k = 0; k < range.count; ++k) {
        entry_at[range.first + k] = entry;
        share_.entry_in_order[in_order + k] = entry++;
      }
    }
    GW_ASSERT(entry == share_.entries.size());
    for (uint32_t s = 0; s < plan_.slices.size(); ++s) {
      if (!share_.entry_at[s].empty() && plan_.slices[s].ranges[0].host == share_.member.host &&
          !share_.device->stream().discrete())
        add_reported_slice(s);
    }
  }

  void add_reported_slice(uint32_t slice) {
    const auto index = static_cast<uint32_t>(share_.reported_slices.size());
    ReportedSlice& reported = share_.reported_slices.emplace_back();
    reported.slice = slice;
    reported.ended.assign(share_.entries.size() + 1, 0);
    share_.reported_slice_of.resize(share_.entries.size(), kNone);
    for (uint32_t position = 0; position < share_.entry_at[slice].size(); ++position) {
      const uint32_t entry = share_.entry_at[slice][position];
      if (entry == kNone) continue;
      reported.ended[entry + 1] = position + 1;
      share_.reported_slice_of[entry] = index;
    }
    for (size_t e = 1; e < reported.ended.size(); ++e)
      reported.ended[e] = std::max(reported.ended[e], reported.ended[e - 1]);
  }

  // The gate meets others too: when it does not let the run pass, all devices replay its
  // collectives.
  void mark_entries_that_meet() {
    for (Entry& entry : share_.entries) {
      entry.meets_others =
          entry.kind == EntryKind::kGate ||
          (entry.function != nullptr && entry.function->has_collective(entry.begin, entry.end));
    }
  }

  // Modelled time of a run, or kNever if it is longer than a short run. Nobody knows the time of a
  // user's kernel, and a body may hold one.
  int64_t run_modelled_ns() const {
    int64_t sum_ns = 0;
    for (const Entry& entry : share_.entries) {
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
  LaidOutShare& share_;
  bool is_guarded_ = false;  // A call of the plan has a result that must be finite.
};

}  // namespace

void add_entries(LaidOutShare& share, const Positions& positions) {
  EntryMaker(share, positions).run();
}

}  // namespace gangway
