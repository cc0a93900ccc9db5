#include "executor/host/stuck_watch.h"

#include <algorithm>
#include <set>
#include <utility>

namespace gangway {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kLookNs = StuckWatch::kLookMs * kMs;
constexpr int64_t kShortestNs = 1000 * kMs;
constexpr int64_t kTimesMeasured = 5, kTimesModelled = 20;

// The plan's oldest unfinished run on the device; the others are behind it. Null: there is none.
const DeviceRun* front_run(const InstalledPlan& plan, size_t device) {
  const DeviceRun* front = nullptr;
  for (const auto& run : plan.runs) {
    const DeviceRun& here = *run->devices[device];
    if (here.active() && (front == nullptr || here.run() < front->run())) front = &here;
  }
  return front;
}

uint32_t node_of(const Entry& entry) {
  return entry.plan_node == kNone ? entry.node : entry.plan_node;
}

// The cost model's time for the section of an entry, or for the whole plan if the entry waits for
// other devices.
int64_t modelled_ns(const InstalledPlan& plan, const LaidOutShare& share, uint32_t entry,
                    bool waits) {
  const Positions& positions = plan.positions;
  int64_t sum_ns = 0;
  for (uint32_t s = 0; s < positions.slices(); ++s) {
    if (waits || entry == share.entries.size()) {
      sum_ns += positions.modelled_ns(s, {0, positions.count(s)});
      continue;
    }
    const std::vector<uint32_t>& entries = share.entry_at[s];
    const auto at = std::find(entries.begin(), entries.end(), entry);
    if (at == entries.end()) continue;
    sum_ns += positions.modelled_ns(s, {static_cast<uint32_t>(at - entries.begin()), 1});
  }
  return sum_ns;
}

CompiledFunction::StepText text_of(const LaidOutShare& share, const DeviceRun& run, uint32_t at) {
  if (at >= share.entries.size())
    return {cat("what it launched on ", share.device->name()), "", false};
  const Entry& entry = share.entries[at];
  const PlanNode& node = share.plan->nodes[node_of(entry)];
  switch (entry.kind) {
    case EntryKind::kCall:
    case EntryKind::kCommit: {
      CompiledFunction::StepText text = entry.function->describe_step(run.step(at));
      return text.what.empty() ? CompiledFunction::StepText{node.name, node.at, false} : text;
    }
    case EntryKind::kSource: return {cat("the source \"", node.name, "\""), node.at, false};
    case EntryKind::kSend: return {cat("the send of \"", node.name, "\""), node.at, true};
    case EntryKind::kReceive: return {cat("the receipt of \"", node.name, "\""), node.at, true};
    case EntryKind::kGate: return {"the gate", node.at, true};
  }
  return {};
}

}  // namespace

bool StuckWatch::look(const std::vector<const InstalledPlan*>& plans, int64_t now_ns) {
  const int64_t passed_ns =
      last_look_ns_ == 0 ? 0 : std::clamp<int64_t>(now_ns - last_look_ns_, 0, 2 * kLookNs);
  last_look_ns_ = now_ns;
  std::map<uint32_t, StuckDevice> found;
  std::set<const DevicePlan*> there;
  for (const InstalledPlan* plan : plans) {
    for (size_t d = 0; d < plan->devices.size(); ++d) {
      there.insert(plan->devices[d].get());
      look_at(*plan, d, passed_ns, found);
    }
  }
  std::erase_if(records_, [&](const auto& item) { return !there.contains(item.first); });
  const auto same = [](const StuckDevice& a, const StuckDevice& b) {
    return a.device == b.device && a.run == b.run;
  };
  std::vector<StuckDevice> stuck;
  for (auto& [device, one] : found) stuck.push_back(std::move(one));
  const bool changed = !std::ranges::equal(stuck, stuck_, same);
  stuck_ = std::move(stuck);
  return changed;
}

void StuckWatch::look_at(const InstalledPlan& plan, size_t d, int64_t passed_ns,
                         std::map<uint32_t, StuckDevice>& found) {
  const LaidOutShare& share = plan.shares[d];
  const DeviceRun* run = front_run(plan, d);
  const RunId id = run == nullptr ? RunId() : run->run();
  const uint32_t progress = run == nullptr ? 0 : run->progress();
  Record& record = records_[plan.devices[d].get()];
  // The address belongs to another plan now.
  if (record.plan != plan.id) record = {.plan = plan.id};
  if (record.run != id || record.progress != progress) {
    note_end(record);
    record.ended_once |= record.run != id && record.run != RunId();
    record.run = id;
    record.progress = progress;
    record.for_ns = 0;
    return;
  }
  record.for_ns += passed_ns;
  if (run == nullptr || !DeviceRun::at_work(progress) || record.for_ns <= kShortestNs) return;
  CompiledFunction::StepText text = text_of(share, *run, DeviceRun::entry_of(progress));
  if (record.for_ns <= limit_ns(record, plan, d, text.meets_peers)) return;
  StuckDevice stuck{.device = share.member.device,
                    .run = id,
                    .what = std::move(text.what),
                    .at = std::move(text.at),
                    .ms = record.for_ns / kMs,
                    .waits = text.meets_peers};
  const auto [at, first] = found.try_emplace(stuck.device, stuck);
  if (first) return;
  const auto rank = [](const StuckDevice& one) { return std::pair(one.waits, -one.ms); };
  if (rank(stuck) < rank(at->second)) at->second = std::move(stuck);
}

// The entry began up to a look before it was first seen, and ended up to a look after it was last
// seen.
void StuckWatch::note_end(Record& record) {
  if (record.for_ns == 0 || !DeviceRun::at_work(record.progress)) return;
  int64_t& longest = record.longest_ns[DeviceRun::entry_of(record.progress)];
  longest = std::max(longest, record.for_ns + 2 * kLookNs);
}

int64_t StuckWatch::limit_ns(const Record& record, const InstalledPlan& plan, size_t device,
                             bool waits) {
  const uint32_t entry = DeviceRun::entry_of(record.progress);
  const auto longest = record.longest_ns.find(entry);
  if (longest != record.longest_ns.end())
    return std::max(kShortestNs, kTimesMeasured * longest->second);
  if (record.ended_once) return kShortestNs;  // It took less than a look.
  return std::max(kShortestNs,
                  kTimesModelled * modelled_ns(plan, plan.shares[device], entry, waits));
}

std::string StuckWatch::describe(const std::vector<const InstalledPlan*>& plans) const {
  std::string lines;
  for (const InstalledPlan* plan : plans) {
    for (size_t d = 0; d < plan->devices.size(); ++d) {
      const DeviceRun* run = front_run(*plan, d);
      if (run == nullptr) continue;
      const LaidOutShare& share = plan->shares[d];
      const auto record = records_.find(plan->devices[d].get());
      const int64_t ms = record == records_.end() ? 0 : record->second.for_ns / kMs;
      lines += cat("    ", share.device->name(), ": run ", run->run(), " of \"", plan->plan->name,
                   "\" ");
      const uint32_t progress = run->progress();
      const uint32_t entry = DeviceRun::entry_of(progress);
      if (!DeviceRun::at_work(progress)) {
        lines += cat("waits for its tickets or its turn at entry ", entry);
      } else {
        const CompiledFunction::StepText text = text_of(share, *run, entry);
        lines += cat(text.meets_peers ? "waits for other devices in " : "is in ", text.what);
        if (!text.at.empty()) lines += cat(" at ", text.at);
      }
      lines += cat(", for ", ms, " ms\n");
    }
  }
  return lines;
}

}  // namespace gangway
