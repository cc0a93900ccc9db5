// StateWriter: keeps a controller's state folder up to date while the controller lives.
//
// When it is created it gives the controller the names that the folder has; from then on it writes
// the names whenever one comes, goes or changes hands, and a line for each program that begins or
// ends. It writes on a thread of its own, in the order in which things happened, and what a
// controller that is killed has not written yet is lost. Where the disk refuses, it says so in the
// log and tries again; it keeps kLinesMax lines for that, and says how many it dropped.
//
// Threads: the reactor's; destroying it suspends until all is written, or was tried once more.
// Ownership: the controller and the folder outlive it.
#pragma once

#include <cstdint>
#include <string>

#include "controller/service/controller.h"
#include "controller/service/state_dir.h"
#include "runtime/fibers/background.h"

namespace gangway {

class StateWriter {
 public:
  static constexpr size_t kLinesMax = 4096;

  StateWriter(Reactor& reactor, Controller& controller, StateDir& state, Logger log);
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;

 private:
  void on_program(const ProgramEvent& event);
  void add_line(std::string line);
  void serve();
  // Suspends. What is kept until it is on the disk.
  void write_once();

  Reactor& reactor_;
  Controller& controller_;
  StateDir& state_;
  const Logger log_;
  std::string lines_;
  size_t line_count_ = 0, dropped_ = 0;
  bool are_hosts_changed_ = true;
  bool is_closing_ = false;
  WaitQueue changed_;
  Background background_;
  Fiber fiber_;
};

}  // namespace gangway
