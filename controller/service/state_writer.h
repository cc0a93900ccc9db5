// StateWriter: keeps a controller's state folder up to date while the controller lives.
//
// When it is created it gives the controller the names that the folder has; from then on it writes
// the names whenever one comes, goes or changes hands, and a line for each program that begins or
// ends. It writes on a thread of its own, in the order in which things happened, and what a
// controller that is killed has not written yet is lost. Where the disk refuses, it says so in the
// log and tries again; it keeps kLinesMax lines for that, and says how many it dropped.
//
// Of each program that can go on behind a restart it keeps a file (Controller::record_of()), until
// the program ends: not where it ends with the controller.
//
// Threads: the reactor's; destroying it suspends until all is written, or was tried once more.
// Ownership: the controller and the folder outlive it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
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

  // The session is of a program that the folder has a file of, which stays as it is until follow(),
  // whatever becomes of the session.
  void hold(SessionId session, const std::string& owner, const std::string& name);
  // Its file is as its program is, from now on.
  void follow(SessionId session);
  // All files stay as they are from now on: the controller ends.
  void leave_programs();

 private:
  struct ProgramName {
    std::string owner, name;
  };
  void write_programs();
  std::optional<Error> write_program(const ProgramName& of, std::optional<ProgramRecord> record);
  bool has_news() const {
    return are_hosts_changed_ || line_count_ > 0 || !changed_programs_.empty();
  }
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
  std::set<SessionId> changed_programs_, held_programs_;
  bool is_leaving_ = false;
  std::map<SessionId, std::optional<ProgramRecord>> last_records_;  // Once it is.
  std::map<SessionId, ProgramName> files_;  // Of programs that have one, or may have.
  bool are_hosts_changed_ = true;
  bool is_closing_ = false;
  WaitQueue changed_;
  Background background_;
  Fiber fiber_;
};

}  // namespace gangway
