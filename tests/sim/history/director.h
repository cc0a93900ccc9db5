// Director: what happens to a stage's hosts and to its controller, while the programs can be
// expected to go on: hosts are killed, lose their connections or stand still, and others come in
// their place; the controller ends, and another one starts.
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

  // Until all programs are over; all hosts are there then. Suspends.
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
