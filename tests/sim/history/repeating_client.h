// RepeatingClient: clients of a program whose steps the controller enqueues: one begins it and
// detaches, others attach, look how far it is, now and then begin another repetition, and detach
// again. The program goes on behind lost hosts and behind restarts of its controller.
//
// Threads: live() in a fiber of the stage's reactor.
// Ownership: the stage outlives it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/history/stage.h"

namespace gangway::history {

class RepeatingClient {
 public:
  RepeatingClient(Stage& stage, Rng rng, std::string program)
      : stage_(stage), rng_(rng), program_(std::move(program)) {
    stage_.programs[program_];
  }
  // From connecting to closing. Suspends.
  void live();

 private:
  void begin();
  void repeat(const Executable& step);
  // True: the program is closed.
  bool visit(bool is_last);
  void look(const Repeat& repetition);
  // Until the repetition has ended, which is to be changed then. False: a restart came between.
  bool end(const Repeat& repetition, bool cancels);
  void read(const Client& client);
  // Those that came beside the repeated one, a few times, while nothing is repeated.
  void run_others(const Client& client);
  // It stays when `held` goes after the client has detached.
  void compile(const Client& client, const Repeat& repetition, std::vector<Executable>& held);
  Standing& standing() { return stage_.programs[program_]; }

  Stage& stage_;
  Rng rng_;
  const std::string program_;
  int64_t next_x_ = 1, asked_ = 0, compiled_ = 0;
  std::optional<size_t> repeated_;  // The operation under way.
  int64_t done_ = 0;                // Of all repetitions that have ended.
};

}  // namespace gangway::history
