// How far apart the devices of a slice lie along each axis of its mesh.
//
// Threads: pure. Errors: the plan keeps its rules (plan_check.h).
// Cost: ranges of the slice times axes, however many devices they have.
#pragma once

#include <vector>

#include "ir/plan/islands.h"
#include "ir/plan/plan.h"

namespace gangway {

// For each axis: the slowest class of link between two devices that are neighbours along it; no two
// devices that differ in this coordinate alone are farther apart. An axis of size 1 has kHost.
std::vector<LinkClass> axis_links(const Plan& plan, const PlanSlice& slice);

}  // namespace gangway
