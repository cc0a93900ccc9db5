// The first steps of installing a plan on a host, in order: its devices, their functions, and the
// entries that each device replays.
//
// Function f of the plan has the number f in a CompileJob.
// Threads: reactor thread.
// Errors: those of compiling.
#pragma once

#include <memory>
#include <vector>

#include "executor/host/host_plan.h"

namespace gangway {

void add_devices(HostPlan& plan, const std::vector<std::unique_ptr<Device>>& devices);
void add_functions(const HostPlan& plan, CompileJob& job);
// Called once the functions are compiled; takes the groups of their collectives too.
void take_functions(HostPlan& plan, const CompileJob& job);
// Called once the device's layout is known.
void add_entries(HostPlan& plan, DevicePlan& device);

}  // namespace gangway
