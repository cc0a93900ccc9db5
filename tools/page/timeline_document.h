// What devices did in the last runs, as JSON: the field "timeline" of the page's document
// (docs/page_document.md), from a timeline in Chrome's format as runtime/observe/trace.h writes it.
//
// Spans of kernels are joined to the user's source by the plan whose runs they are. A run of
// another plan, whose spans do not fit, is shown without.
//
// Threads: pure. Errors: kInvalid for what is no such timeline.
// Cost: linear in the text.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "ir/plan/plan.h"

namespace gangway::tool {

// Of more spans the last are taken.
inline constexpr size_t kTimelineSpansMax = 20'000;

// `until_us`: on the clock of the timeline; what begins later is not shown.
std::string timeline_document(const std::string& chrome_json, const Plan& plan,
                              size_t spans_max = kTimelineSpansMax,
                              double until_us = std::numeric_limits<double>::infinity());

}  // namespace gangway::tool
