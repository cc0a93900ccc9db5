// Graph and plan of a program of the cluster, as its controller has them, for tools that show them.
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
  Plan plan;                               // The plan that is installed now.
  std::vector<std::string> kinds, placed;  // Per slice: kind of devices, and why it lies on them.
};

}  // namespace gangway
