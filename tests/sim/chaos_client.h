// ChaosClient: one of the clients of chaos.h: it connects, compiles a program that counts, runs it,
// cancels runs, reads its state, may die, and notes violations.
//
// Each run of the program outputs a number that an undisturbed run would output too. Either it adds
// one to a state on each of its slices, and outputs how many runs have committed; or it has no
// states, so that runs need not wait for one another, and passes a number of its own from slice to
// slice.
//
// Threads: live() in a fiber of the cluster's reactor.
// Ownership: the cluster outlives it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gangway.h"
#include "sim/faults.h"
#include "sim/sim_cluster.h"

namespace gangway {

class ChaosClient {
 public:
  ChaosClient(Reactor& reactor, SimCluster& cluster, Rng rng, int number)
      : reactor_(reactor), cluster_(cluster), rng_(rng), number_(number) {}

  // Makes the client have one run at a time; otherwise its seed decides. Call it before live().
  void wait_for_each() { waits_for_each_ = true; }
  // Lives from connecting to closing. Suspends.
  void live();

  std::string name() const { return SimCluster::client_name(number_); }
  int runs = 0, done = 0;
  std::optional<Error> error;  // The first error that the client did not cause itself.
  int64_t error_at_ns = 0;
  std::vector<std::string> problems;

  bool has_program() const { return !hosts_.empty(); }
  // True if the fault happens to this client, to the controller, or to a host of its program.
  bool is_hit_by(const Fault& fault) const;

 private:
  // A run whose result the client has not looked at.
  struct Open {
    Run run;
    int number = 0;  // Number of this run among all runs of the client.
  };

  void work(const Client& client);
  void act(const Executable& program, const Slice& slice);
  void submit(const Executable& program, const Slice& slice);
  void cancel_last();
  void await_end(const Run& run);
  void die();
  void wait_for_oldest();
  void read_state(const Slice& slice);
  void expect_value(float got, int expected, const std::string& what);
  void expect_no_runs_left();
  void met(const Error& why);

  Reactor& reactor_;
  SimCluster& cluster_;
  Rng rng_;
  const int number_;
  std::set<std::string> hosts_;  // Hosts of its program; empty until it has one.
  int slices_ = 1;
  bool counts_ = true;           // Its program counts.
  bool waits_for_each_ = false;  // It waits for each run.
  bool died_ = false;
  HostTensor x_;
  Array array_;
  std::deque<Open> last_;
};

}  // namespace gangway
