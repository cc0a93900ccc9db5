// Which hosts of a plan write to the memory of which, as they said when they installed it.
//
// Threads: the reactor's thread; nothing suspends.
// Errors: kInvalid for what a host can't say of a plan.
#pragma once

#include <cstddef>
#include <vector>

#include "controller/plans/plans.h"

namespace gangway {

// Fills PlanRecord::writes_to from the answers of all hosts, in the plan's order. Throws kInvalid
// if one names hosts beyond the plan, or offers the memory of another host.
void note_links(PlanRecord& plan, const std::vector<Installed>& installed);

// The offers of the hosts that a host writes to.
std::vector<LinkOffer> offers_for(const PlanRecord& plan, const std::vector<Installed>& installed,
                                  size_t host);

}  // namespace gangway
