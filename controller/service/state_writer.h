// StateWriter: keeps a controller's state folder up to date while the controller lives.
//
// When it is created it gives the controller the names of hosts that the folder has. From then on
// it writes the names whenever one comes, goes or changes its owner, and a line for each program
// that begins or ends. It writes on a thread of its own, in the order of the events; a controller
// that is killed loses what it has not written yet. If a write fails, it logs that and tries again;
// it keeps kLinesMax lines meanwhile, and logs how many more it dropped.
//
// It keeps a file for each program that can go on after a restart (Controller::record_of()), until
// the program ends. If the program ends with the controller, the file stays.
//
// Threads: the reactor's; destroying it suspends until all is written, or a last try has failed.
// Ownership: the controller and the folder outlive it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "controller/controller.h"
#include "controller/service/state_dir.h"
#include "runtime/fibers/background.h"

namespace gangway {

class StateWriter {
 public:
  static constexpr size_t kLinesMax = 4096;

  StateWriter(Reactor& reactor, Controller& controller, StateDir& state, Logger log);
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;

  // The folder has a file of this session's program, and the file stays as it is until follow(),
  // whatever becomes of the session.
  void hold(SessionId session, const std::string& owner, const std::string& name);
  // The file follows the program from now on.
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
  // Suspends. Writes all news once; what could not be written is kept.
  void write_once();

  Reactor& reactor_;
  Controller& controller_;
  StateDir& state_;
  const Logger log_;
  std::string lines_;
  size_t line_count_ = 0, dropped_ = 0;
  std::set<SessionId> changed_programs_, held_programs_;
  bool is_leaving_ = false;
  std::map<SessionId, std::optional<ProgramRecord>> last_records_;  // Filled by leave_programs().
  std::map<SessionId, ProgramName> files_;  // Programs that have a file, or may have one.
  bool are_hosts_changed_ = true;
  bool is_closing_ = false;
  WaitQueue changed_;
  Background background_;
  Fiber fiber_;
};

}  // namespace gangway
