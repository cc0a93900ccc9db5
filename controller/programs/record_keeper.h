// RecordKeeper: decides whether a program can go on after a restart of the controller, and makes
// the record from which it does (program_record.h).
//
// It can where its user gave it a name, one slice keeps checkpoints and has all of its states, and
// only a repetition changes them: then a checkpoint's version says how many of its steps have
// committed. The repetition that was begun last is followed until something else changes the
// states, which its user is warned of.
//
// Threads: the reactor's thread; nothing suspends.
// Ownership: the program's, which it refers to; the tables and the checkpoints outlive it.
// Errors: none.
// Cost: O(slices + executables + their states) a record; O(log) a run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "controller/programs/checkpoints.h"
#include "controller/programs/program_record.h"
#include "controller/programs/shared_tables.h"

namespace gangway {

class LiveProgram;

class RecordKeeper {
 public:
  RecordKeeper(LiveProgram& program, SharedTables& tables, const Checkpoints& checkpoints)
      : program_(program), tables_(tables), checkpoints_(checkpoints) {}
  RecordKeeper(const RecordKeeper&) = delete;

  // A repetition of the plan begins, of which `begin` steps have committed under an earlier
  // controller.
  void repetition_begins(const PlanRecord& plan, int64_t begin);
  // A step of a repetition has ended.
  void step_ended();
  // A run of the plan begins that is no step.
  void run_begins(PlanId plan);
  // The program's client writes states of this scope.
  void writes_states(uint64_t scope);
  // A checkpoint of the program is on the disk.
  void checkpoint_written();

  // None: the program can't be brought back.
  std::optional<ProgramRecord> record() const;

 private:
  // States that only a repetition changes: version `first` + i is the one before its step i.
  struct RepeatedStates {
    PlanId plan;
    uint64_t scope = 0;
    uint64_t first = 0;
    uint64_t restorable_from = 0;  // Checkpoints of earlier versions hold other states.
  };
  uint64_t version_ahead(uint64_t scope) const;
  void not_by_repetition_alone(const std::string& why);
  bool add_slices(ProgramRecord& record, std::map<SliceId, uint32_t>& slices) const;
  bool add_executables(ProgramRecord& record, const std::map<SliceId, uint32_t>& slices) const;

  LiveProgram& program_;
  SharedTables& tables_;
  const Checkpoints& checkpoints_;
  std::optional<RepeatedStates> repeated_;
  // For each scope, the version in which the client wrote states last.
  std::map<uint64_t, uint64_t> put_at_;
  bool has_checkpoint_ = false;
};

}  // namespace gangway
