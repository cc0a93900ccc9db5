// The work of devices in the last runs, as JSON: the field "timeline" of the page's document
// (docs/page_document.md), from a timeline in Chrome's format as runtime/observe/trace.h writes it.
//
// Spans of kernels get their place in the user's source from the plan of their run. Spans of
// another plan's run are shown without a place: a run that names another plan, or one whose spans
// do not fit.
//
// Threads: pure.
// Errors: kInvalid for a text that is no such timeline.
// Cost: linear in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "ir/plan/plan.h"

namespace gangway::tool {

// If there are more spans, only the last are shown.
inline constexpr size_t kTimelineSpansMax = 20'000;

struct TimelineOptions {
  size_t spans_max = kTimelineSpansMax;
  // On the clock of the timeline; spans that begin later are not shown.
  double until_us = std::numeric_limits<double>::infinity();
  std::optional<uint64_t> plan;               // The plan's number in the timeline; empty: unknown.
  std::map<std::string, std::string> silent;  // Hosts that are missing in it, and why.
};

std::string timeline_document(const std::string& chrome_json, const Plan& plan,
                              const TimelineOptions& options = {});

}  // namespace gangway::tool
