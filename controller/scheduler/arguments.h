// Inputs and outputs of a run, checked against its plan and its client's arrays. RunRecord::kept
// has the references to arrays that it has taken, also when these functions throw half-way.
//
// Threads: pure except for the object table.
// Errors: kInvalid, naming the input, what was expected and what came.
// Cost: O(arguments + outputs).
#pragma once

#include "controller/hosts/objects.h"
#include "controller/scheduler/run.h"

namespace gangway {

// Keeps the run's arguments until it has ended, and notes the runs whose outputs they are.
void bind_arguments(RunRecord& run, ObjectTable& objects);
// Adds the run's outputs to its client's arrays.
void add_outputs(RunRecord& run, ObjectTable& objects);

}  // namespace gangway
