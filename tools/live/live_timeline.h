// What the devices of a running executable did last, as JSON: the field "timeline" of the page's
// document (docs/page_document.md).
//
// Threads: pure. Cost: some microseconds an event.
#pragma once

#include <string>

#include "controller/service/controller.h"

namespace gangway::tool {

// Most spans that it has.
inline constexpr size_t kLiveSpansMax = 8'000;

// The events that each device is asked for.
uint32_t live_events_per_row(const Plan& plan);

// From where on everything that the devices did is known.
std::string live_timeline(ShownTimeline timeline);

}  // namespace gangway::tool
