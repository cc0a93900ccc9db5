// A simulated cluster from a seed: clients run programs on it while it is disturbed (draw.h), and
// the history of their operations is checked against the model (model.h).
//
// Threads: the calling thread, which has no reactor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/chaos.h"
#include "tests/sim/history/draw.h"

namespace gangway::history {

struct SceneReport {
  Drawn drawn;
  std::vector<std::string> events;  // Events of the cluster, with their times.
  // The misfit and the operations that led to it, errors without a reason, and resources left
  // behind. Empty if all is well.
  std::vector<std::string> problems;
  size_t told = 0;  // Number of operations with a result.
  int lost = 0, restarted = 0;
  std::string history;  // All operations, a line each.
};

// The same seed and meddler give the same report. `meddler`: creates a meddler between the
// processes, for example one of tests/sim/meddling.h; null: none.
SceneReport play(uint64_t seed, const NewMeddler& meddler = nullptr);
// Text for a failed test.
std::string to_string(const SceneReport& report);

}  // namespace gangway::history
