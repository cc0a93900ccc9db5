// Stage: the data that the players of one simulation share: the cluster, its history, and the
// standing of each program. The director reads the standing, and does nothing from which a program
// is not promised to go on.
//
// Threads: the reactor's.
// Ownership: the reactor and the cluster outlive it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gangway.h"
#include "sim/sim_cluster.h"
#include "tests/sim/history/draw.h"
#include "tests/sim/history/history.h"

namespace gangway::history {

// Facts that a program's client sets, for the director.
struct Standing {
  bool is_set_up = false;     // It keeps checkpoints.
  bool is_over = false;       // It has been closed.
  bool is_changing = false;   // The repetition to resume after a restart is changing.
  int64_t states_since = 0;   // Version by which all of its states had been placed.
  int64_t repeated_from = 0;  // The version before the first step of its repetition.
};

// Growing pauses between attempts of one caller: an obstacle may stay for a minute.
class Pauses {
 public:
  void begin_again() { next_ns_ = kFirstNs; }
  int64_t next_ns() { return std::exchange(next_ns_, std::min(2 * next_ns_, kMostNs)); }

 private:
  static constexpr int64_t kFirstNs = 3'000'000, kMostNs = 1'000'000'000;
  int64_t next_ns_ = kFirstNs;
};

class Stage {
 public:
  Stage(Reactor& on, SimCluster& with, const Drawn& what)
      : reactor(on), cluster(with), drawn(what) {}

  Reactor& reactor;
  SimCluster& cluster;
  const Drawn& drawn;
  History history;
  std::map<std::string, Standing> programs;
  std::vector<std::string> problems;  // Answers for which there is no reason.
  // Records a problem, with the operations that led to it.
  void problem(const std::string& program, const std::string& what);

  bool is_over() const;
  // Suspends for a random time of at most `ns`.
  void pass_up_to(Rng& rng, int64_t ns) const;
  // A new client, from an endpoint of its own: if a greeting is cut off, it is begun again.
  Client connect(const std::string& program);
  Client attach(const std::string& program);
  // Reads the newest checkpoint's version from the cluster's status, and records it in the history.
  // Suspends.
  int64_t look_for_checkpoint(const Client& client, const std::string& program);
  // Version of the newest checkpoint on the disk; 0: none. Requires a controller.
  int64_t newest_checkpoint(const std::string& program) const;
  bool may_lose_a_host() const;
  bool may_lose_its_controller() const;

 private:
  std::string new_endpoint() { return SimCluster::client_name(endpoints_++); }
  int endpoints_ = 0;
};

// A program of this stage: executable kStep, and others, which share its states and have one of
// their own. Input "x"; outputs "seen.count", "seen.trace" and, for the others, "seen.own".
Program counted_program(const std::string& executable, int64_t step_us);
HostTensor as_input(int64_t x);
// The outputs of a run of counted_program(). Waits for the run.
Values results_of(const Run& run, const std::string& executable);
Values results_of(const Reported& outputs);
// The value of a state if its elements are all equal, otherwise -1.
int64_t value_of(const HostTensor& state);

}  // namespace gangway::history
