#include "tools/live/live_timeline.h"

#include <algorithm>
#include <limits>

#include "tools/page/timeline_document.h"

namespace gangway::tool {
namespace {

// Returns the time before which events of some device are lost, so that the device would look idle.
int64_t all_known_from_ns(const ShownTimeline& timeline) {
  int64_t from = std::numeric_limits<int64_t>::min();
  for (const HostTimeline& host : timeline.hosts) {
    for (const TraceThread& row : host.trace.threads) {
      if (row.lost == 0 || row.events.empty()) continue;
      const auto first = std::ranges::min_element(row.events, {}, &TraceEvent::begin_ns);
      from = std::max(from, first->begin_ns);
    }
  }
  return from;
}

}  // namespace

uint32_t live_events_per_row(const Plan& plan) {
  constexpr size_t kLeast = 64;
  size_t devices = 0;
  for (const PlanSlice& slice : plan.slices) {
    for (const PlanRange& range : slice.ranges) devices += range.count;
  }
  return static_cast<uint32_t>(std::max(kLeast, kLiveSpansMax / std::max<size_t>(devices, 1)));
}

std::string live_timeline(ShownTimeline timeline) {
  const int64_t from_ns = all_known_from_ns(timeline);
  std::vector<TraceDump> traces;
  for (HostTimeline& host : timeline.hosts) {
    for (TraceThread& row : host.trace.threads) {
      std::erase_if(row.events, [&](const TraceEvent& event) { return event.begin_ns < from_ns; });
    }
    // Process ids of several machines may be equal.
    host.trace.pid = static_cast<int64_t>(traces.size());
    traces.push_back(std::move(host.trace));
  }
  TimelineOptions options{.spans_max = kLiveSpansMax, .plan = timeline.on_hosts.value};
  for (const auto& [host, why] : timeline.silent) options.silent.emplace(host, why.message());
  return timeline_document(to_chrome_json(traces), *timeline.graph.plan, options);
}

}  // namespace gangway::tool
