// Director: disturbs a stage's hosts and its controller, at moments from which the programs are
// promised to go on: it kills hosts, breaks their connections or stops them for a while, and starts
// others in their place; it ends the controller and starts another one.
//
// Threads: direct() in a fiber of the stage's reactor.
// Ownership: the stage outlives it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/history/stage.h"

namespace gangway::history {

class Director {
 public:
  Director(Stage& stage, Rng rng, int64_t host_timeout_ms)
      : stage_(stage),
        rng_(rng),
        host_timeout_ns_(host_timeout_ms * 1'000'000),
        losses_(stage.drawn.losses),
        restarts_(stage.drawn.restarts) {}

  // Directs until all programs are over, and then brings all hosts back. Suspends.
  void direct();
  const std::vector<std::string>& events() const { return events_; }
  int lost() const { return stage_.drawn.losses - losses_; }
  int restarted() const { return stage_.drawn.restarts - restarts_; }

 private:
  void lose_a_host();
  void restart_controller();
  void bring_hosts_back(bool all);
  void start(int host);
  bool is_gone(int host) const;
  void note(const std::string& what);

  Stage& stage_;
  Rng rng_;
  const int64_t host_timeout_ns_;
  int losses_, restarts_;
  std::map<int, int64_t> away_until_ns_;
  std::vector<std::string> events_;
};

}  // namespace gangway::history
