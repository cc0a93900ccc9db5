// What devices did in the last runs, as JSON: the field "timeline" of the page's document
// (docs/page_document.md), from a timeline in Chrome's format as runtime/observe/trace.h writes it.
//
// Spans of kernels are joined to the user's source by the plan whose runs they are. A run of
// another plan is shown without: one that says so, and one whose spans do not fit.
//
// Threads: pure. Errors: kInvalid for what is no such timeline.
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

// Of more spans the last are taken.
inline constexpr size_t kTimelineSpansMax = 20'000;

struct TimelineOptions {
  size_t spans_max = kTimelineSpansMax;
  // On the clock of the timeline; what begins later is not shown.
  double until_us = std::numeric_limits<double>::infinity();
  std::optional<uint64_t> plan;               // What the timeline calls the plan; none: not known.
  std::map<std::string, std::string> silent;  // Hosts that are not in it, and why.
};

std::string timeline_document(const std::string& chrome_json, const Plan& plan,
                              const TimelineOptions& options = {});

}  // namespace gangway::tool
