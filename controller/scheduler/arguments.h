// What a run names: its inputs and outputs, checked against its plan and what its client holds.
//
// Threads: pure but for the object table.
// Errors: kInvalid, naming the input, what was expected and what came.
// Cost: O(arguments + outputs).
#pragma once

#include "controller/resources/objects.h"
#include "controller/scheduler/run.h"

namespace gangway {

// Takes the references that keep the arrays of `run` until it has ended, and makes its outputs;
// RunRecord::kept says which, also when it throws half-way. Says whose outputs its arguments are.
void bind_arguments(RunRecord& run, ObjectTable& objects);

}  // namespace gangway
