// Whether the devices of a plan report to the controller how far they are, node by node. Turns of
// less than a run, and sequential dispatch, go by these reports.
//
// Threads: the reactor's thread. Cost: O(devices of the plan), once a plan.
#pragma once

#include <string>

#include "controller/plans/plans.h"

namespace gangway {

// The reason, in words for the user; empty: they do report.
std::string why_no_reports(const PlanRecord& record, const HostTable& hosts);

// Throws kUnimplemented, naming the program, where it is dispatched sequentially on devices that do
// not report.
void require_reports(const PlanRecord& record, const HostTable& hosts);

}  // namespace gangway
