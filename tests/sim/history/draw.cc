#include "tests/sim/history/draw.h"

#include "runtime/base/cat.h"
#include "runtime/base/rng.h"

namespace gangway::history {

Drawn draw(uint64_t seed) {
  Rng rng(seed, 0x4157);
  Drawn drawn;
  drawn.hosts = 2 + static_cast<int>(rng.below(3));
  drawn.programs = 1 + static_cast<int>(rng.below(2));
  drawn.restarts = rng.chance(0.4) ? 1 + static_cast<int>(rng.below(2)) : 0;
  drawn.losses = rng.chance(0.75) ? 1 + static_cast<int>(rng.below(3)) : 0;
  drawn.is_elastic = rng.chance(0.4);
  drawn.has_limits = rng.chance(0.4);
  drawn.has_cancels = rng.chance(0.4);
  drawn.has_new_states = rng.chance(0.6);
  drawn.releases = rng.chance(0.5);
  drawn.detaches = rng.chance(0.4);
  drawn.suspends = rng.chance(0.4);
  drawn.is_read = rng.chance(0.6);
  drawn.has_faults = rng.chance(0.3);
  drawn.every = 3 + rng.below(20);
  drawn.step_us = 100 + static_cast<int64_t>(rng.below(500));
  const bool waits = rng.chance(0.5), stand_still = rng.chance(0.3);
  // If a run must end while its host does not answer, the run may be given up, and with it the
  // program's runs since the newest checkpoint.
  if (drawn.has_faults) drawn.has_limits = drawn.has_cancels = false;
  if (drawn.losses == 0) return drawn;
  drawn.hosts_stand_still = stand_still && !drawn.has_limits && !drawn.has_cancels;
  drawn.losses_wait_for_new_states = waits;
  return drawn;
}

std::string to_string(const Drawn& drawn) {
  std::string text = cat(drawn.hosts, " hosts, ", drawn.programs, " programs, a checkpoint every ",
                         drawn.every, " versions, steps of ", drawn.step_us, " us, ", drawn.losses,
                         " hosts are lost, ", drawn.restarts, " restarts");
  const auto add = [&](bool is_drawn, const char* what) {
    if (is_drawn) text += cat(", ", what);
  };
  add(drawn.hosts_stand_still, "hosts stand still");
  add(drawn.is_elastic, "elastic");
  add(drawn.has_limits, "time limits");
  add(drawn.has_cancels, "cancels");
  add(drawn.has_new_states, "new states");
  add(drawn.releases, "releases");
  add(drawn.detaches, "detached from");
  add(drawn.suspends, "suspended");
  add(drawn.is_read, "read by others");
  add(drawn.has_faults, "faults");
  return text;
}

}  // namespace gangway::history
