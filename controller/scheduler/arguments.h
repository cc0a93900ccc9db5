// What a run names: its inputs and outputs, checked against its plan and what its client holds.
// RunRecord::kept says which references to them it has taken, also when these throw half-way.
//
// Threads: pure but for the object table.
// Errors: kInvalid, naming the input, what was expected and what came.
// Cost: O(arguments + outputs).
#pragma once

#include "controller/resources/objects.h"
#include "controller/scheduler/run.h"

namespace gangway {

// Keeps its arguments until it has ended, and says whose outputs they are.
void bind_arguments(RunRecord& run, ObjectTable& objects);
// Adds its outputs to what its client holds.
void add_outputs(RunRecord& run, ObjectTable& objects);

}  // namespace gangway
