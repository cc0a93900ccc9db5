// A simulated cluster from a seed: clients whose programs run on it, what happens to it meanwhile
// (draw.h), and the history of what they were told, held against the model (model.h).
//
// Threads: the calling thread, which has no reactor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/resources/planted_bugs.h"
#include "tests/sim/history/draw.h"

namespace gangway::history {

struct SceneReport {
  Drawn drawn;
  std::vector<std::string> events;  // What happened to the cluster, and when.
  // What does not fit, with what led to it; errors without a reason; what is left behind. Empty:
  // all is well.
  std::vector<std::string> problems;
  size_t told = 0;  // Operations whose result somebody was told.
  int lost = 0, restarted = 0;
  std::string history;  // All of it, a line each.
};

// The same seed and bugs give the same report.
SceneReport play(uint64_t seed, const PlantedControllerBugs& planted = {});
// What a failed test prints.
std::string to_string(const SceneReport& report);

}  // namespace gangway::history
