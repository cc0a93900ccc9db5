#include "protocol/timeline_wire.h"

#include <string_view>
#include <unordered_map>

#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/base/error.h"

namespace gangway {

void write(wire::HostTimeline::Builder to, const TraceDump& trace) {
  std::unordered_map<std::string_view, uint16_t> numbers;
  std::vector<std::string_view> names;
  to.setProcess(trace.process);
  auto rows = to.initRows(static_cast<uint32_t>(trace.threads.size()));
  for (uint32_t r = 0; r < rows.size(); ++r) {
    const TraceThread& row = trace.threads[r];
    rows[r].setName(row.name);
    rows[r].setLost(row.lost);
    auto events = rows[r].initEvents(static_cast<uint32_t>(row.events.size()));
    for (uint32_t e = 0; e < events.size(); ++e) {
      const TraceEvent& event = row.events[e];
      const auto [name, is_new] =
          numbers.try_emplace(event.name, static_cast<uint16_t>(names.size()));
      if (is_new) names.push_back(name->first);
      events[e].setBeginNs(event.begin_ns);
      events[e].setEndNs(event.end_ns);
      events[e].setRun(event.run);
      events[e].setNode(event.node);
      events[e].setStep(event.step);
      events[e].setName(name->second);
      events[e].setMark(static_cast<uint8_t>(event.mark));
    }
  }
  auto texts = to.initNames(static_cast<uint32_t>(names.size()));
  for (uint32_t i = 0; i < texts.size(); ++i)
    texts.set(i, capnp::Text::Reader(names[i].data(), names[i].size()));
}

HostTimeline read(wire::HostTimeline::Reader from) {
  auto names = std::make_shared<std::vector<std::string>>();
  for (const auto name : from.getNames())
    names->emplace_back(cut({name.begin(), name.size()}, kQuotedBytesMax));
  HostTimeline timeline{names, {.process = from.getProcess().cStr()}};
  const auto rows = from.getRows();
  GW_REQUIRE(rows.size() <= kTimelineRowsMax, "timeline: ", rows.size(), " rows: expected at most ",
             kTimelineRowsMax);
  size_t count = 0;
  for (const auto row : rows) {
    TraceThread& to = timeline.trace.threads.emplace_back();
    to.name = cut({row.getName().begin(), row.getName().size()}, kQuotedBytesMax);
    to.id = static_cast<uint32_t>(timeline.trace.threads.size());
    to.lost = row.getLost();
    count += row.getEvents().size();
    GW_REQUIRE(count <= kTimelineEventsMax, "timeline: expected at most ", kTimelineEventsMax,
               " events");
    to.events.reserve(row.getEvents().size());
    for (const auto event : row.getEvents()) {
      GW_REQUIRE(event.getName() < names->size() &&
                     event.getMark() <= static_cast<uint8_t>(TraceMark::kRunBegins),
                 "timeline: an event has name ", event.getName(), " of ", names->size(),
                 " and mark ", int{event.getMark()});
      to.events.push_back({.name = (*names)[event.getName()].c_str(),
                           .begin_ns = event.getBeginNs(),
                           .end_ns = event.getEndNs(),
                           .run = event.getRun(),
                           .node = event.getNode(),
                           .step = event.getStep(),
                           .mark = static_cast<TraceMark>(event.getMark())});
    }
  }
  return timeline;
}

}  // namespace gangway
