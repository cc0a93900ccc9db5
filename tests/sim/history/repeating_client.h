// RepeatingClient: clients of a program whose steps the controller enqueues: one begins it and
// detaches, others attach, ask for its progress, now and then begin another repetition, and detach
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
  // Lives from connecting to closing. Suspends.
  void live();

 private:
  void begin();
  void repeat(const Executable& step);
  // Returns true if the program is closed.
  bool visit(bool is_last);
  void look(const Repeat& repetition);
  // Waits until the repetition has ended, before another one begins. Returns false if the
  // controller was restarted meanwhile.
  bool end(const Repeat& repetition, bool cancels);
  void read(const Client& client);
  // Runs the other executables a few times, while nothing is repeated.
  void run_others(const Client& client);
  // Compiles another executable. It stays if `held` is destroyed after the client has detached.
  void compile(const Client& client, const Repeat& repetition, std::vector<Executable>& held);
  Standing& standing() { return stage_.programs[program_]; }

  Stage& stage_;
  Rng rng_;
  const std::string program_;
  int64_t next_x_ = 1, asked_ = 0, compiled_ = 0;
  std::optional<size_t> repeated_;  // The operation under way.
  int64_t done_ = 0;                // Steps of all ended repetitions.
};

}  // namespace gangway::history
