// DrivingClient: a client that runs its program step by step, as a training loop does: it runs,
// cancels, reads, compiles and releases executables with states of their own, detaches and attaches
// again, and records the answers in the history.
//
// Threads: live() in a fiber of the stage's reactor.
// Ownership: the stage outlives it.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/history/stage.h"

namespace gangway::history {

class DrivingClient {
 public:
  DrivingClient(Stage& stage, Rng rng, std::string program)
      : stage_(stage), rng_(rng), program_(std::move(program)) {
    stage_.programs[program_];
  }
  // Lives from connecting to closing. Suspends.
  void live();

 private:
  struct Named {
    std::string name;
    Executable executable;
    int64_t count = 0;  // The count that its last run returned.
  };
  struct Open {
    Run run;
    size_t op = 0;
    std::string executable;
  };

  void set_up();
  void act();
  void run();
  void look();
  void look_at_all();
  void read();
  void compile();
  void release();
  void detach_and_attach();
  size_t begin(OpKind kind, const std::string& executable, int64_t x = 0) {
    return stage_.history.begin(
        {.kind = kind, .program = program_, .executable = executable, .x = x});
  }

  Stage& stage_;
  Rng rng_;
  const std::string program_;
  size_t ahead_ = 1;
  int64_t next_x_ = 1, compiled_ = 0, submitted_ = 0;
  bool is_attached_ = false;  // Handles got by attaching free nothing.
  std::optional<Client> client_;
  std::optional<Slice> slice_;
  std::vector<Named> executables_;
  std::deque<Open> open_;
};

}  // namespace gangway::history
