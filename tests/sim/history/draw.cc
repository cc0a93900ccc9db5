#include "tests/sim/history/draw.h"

#include "runtime/base/cat.h"
#include "runtime/base/rng.h"

namespace gangway::history {
namespace {

constexpr DrawRow kDraws[] = {
    {Draw::kLimitsBesideLosses, true, "time limits of runs, and hosts that are lost",
     "a time limit that begins again where a told run is run once more"},
    {Draw::kLossesBehindARestart, true, "hosts that are lost behind a restart of the controller",
     "a program that came back behind a restart and is not known to recovery"},
    {Draw::kRestartsOfWhatShrank, true, "restarts of programs that have shrunk",
     "a record that has the shrunk slice beside the program as it was"},
    {Draw::kLossesBehindANewState, true,
     "hosts that are lost before a checkpoint holds a new state",
     "a state that is not brought back, since the newest checkpoint does not have it"},
    {Draw::kLossesBehindACheckpointAfterANewState, true,
     "hosts that are lost behind the first checkpoint after a new state",
     "a checkpoint that leaves out a state which was placed while it waited"},
    {Draw::kLossesBehindAReleasedState, true,
     "hosts that are lost after an executable and its state were released",
     "a state that is brought back, or held to be lost, after it was released"},
    {Draw::kHostsThatStandStill, true, "hosts that stand still until they count as lost",
     "a lost host that writes what was asked of it into memory that others have by then"},
};

}  // namespace

Draws drawn_today() {
  Draws draws;
  for (const DrawRow& row : kDraws) {
    if (row.is_drawn) draws.insert(row.draw);
  }
  return draws;
}

std::string left_out_today() {
  std::string text;
  for (const DrawRow& row : kDraws) {
    if (!row.is_drawn) text += cat(row.name, ": ", row.finds, "\n");
  }
  return text;
}

Drawn draw(uint64_t seed, const Draws& draws) {
  Rng rng(seed, 0x4157);
  const auto is_on = [&](Draw one) { return draws.contains(one); };
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
  // A run that is to end while its host says nothing may be given up, and with it the program's
  // runs since the newest checkpoint.
  if (drawn.has_faults) drawn.has_limits = drawn.has_cancels = false;
  if (drawn.losses == 0) return drawn;
  if (!is_on(Draw::kLimitsBesideLosses)) drawn.has_limits = false;
  drawn.hosts_stand_still =
      stand_still && is_on(Draw::kHostsThatStandStill) && !drawn.has_limits && !drawn.has_cancels;
  drawn.losses_stop_at_a_restart = !is_on(Draw::kLossesBehindARestart);
  if (drawn.restarts > 0 && !is_on(Draw::kRestartsOfWhatShrank)) drawn.is_elastic = false;
  const bool before = is_on(Draw::kLossesBehindANewState);
  const bool behind = is_on(Draw::kLossesBehindACheckpointAfterANewState);
  if (!before && !behind) drawn.has_new_states = false;
  drawn.losses_wait_for_new_states = before && behind ? waits : behind;
  if (!is_on(Draw::kLossesBehindAReleasedState)) drawn.releases = false;
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
