// The newest work of the devices of a running executable, as JSON: the field "timeline" of the
// page's document (docs/page_document.md).
//
// Threads: pure. Cost: some microseconds an event.
#pragma once

#include <string>

#include "controller/controller.h"

namespace gangway::tool {

// Limit on the spans of a timeline.
inline constexpr size_t kLiveSpansMax = 8'000;

// Returns the number of events that each device is asked for.
uint32_t live_events_per_row(const Plan& plan);

// The timeline begins where the events of all devices are known.
std::string live_timeline(ShownTimeline timeline);

}  // namespace gangway::tool
