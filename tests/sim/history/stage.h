// Stage: what the players of one simulation share: the cluster, its history, and how each program
// of theirs stands, so that nothing is done to one that it is not promised to go on from.
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

// What a program's client says of it.
struct Standing {
  bool is_set_up = false;     // It keeps checkpoints from now on.
  bool is_over = false;       // It has been closed.
  bool is_changing = false;   // What it is to go on with behind a restart is being changed.
  int64_t states_since = 0;   // By then all of its states had been placed: a version.
  int64_t repeated_from = 0;  // The version before the first step of its repetition.
};

// Of who tries again and again: what is in the way may stay for a minute.
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
  std::vector<std::string> problems;  // What was told for which there is no reason.
  // With what led to it.
  void problem(const std::string& program, const std::string& what);

  bool is_over() const;
  // Suspends, for up to so long.
  void pass_up_to(Rng& rng, int64_t ns) const;
  // A new client, from an endpoint of its own: where a greeting is cut off, it is begun again.
  Client connect(const std::string& program);
  Client attach(const std::string& program);
  // What the cluster's status says of the newest checkpoint is written down. Suspends.
  int64_t look_for_checkpoint(const Client& client, const std::string& program);
  // Of checkpoints that are on the disk; 0: none. While there is a controller.
  int64_t newest_checkpoint(const std::string& program) const;
  bool may_lose_a_host() const;
  bool may_lose_its_controller() const;

 private:
  std::string new_endpoint() { return SimCluster::client_name(endpoints_++); }
  int endpoints_ = 0;
};

// A program of this stage: executable kStep, and others that have a state of their own beside those
// that all share. Input "x"; outputs "seen.count", "seen.trace" and, of those others, "seen.own".
Program counted_program(const std::string& executable, int64_t step_us);
HostTensor as_input(int64_t x);
// What a run of it has given. Waits.
Values results_of(const Run& run, const std::string& executable);
Values results_of(const Reported& outputs);
// Of a state, whose elements are all the same; else -1.
int64_t value_of(const HostTensor& state);

}  // namespace gangway::history
