// What a program of the cluster runs, as its controller has it, for tools that show it.
//
// Threads: a value.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/program.h"
#include "ir/plan/plan.h"

namespace gangway {

struct ProgramGraph {
  Program program;
  Plan plan;                               // As it lies now.
  std::vector<std::string> kinds, placed;  // By slice: of its devices, and why it lies on them.
};

}  // namespace gangway
