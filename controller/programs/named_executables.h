// NamedExecutables: the executables of a program that a client which attaches to it finds by their
// names.
//
// Two of them never have one name. All of them together take no more bytes than a record of the
// program may have (program_record.h).
//
// Threads: the reactor's thread; nothing suspends.
// Ownership: the program's (program.h). The plan table outlives it.
// Errors: name() throws kInvalid for a name that a record can't hold, or a plan that is not the
// program's, and kOverloaded for too many bytes.
// Cost: O(executables) a name, O(log) a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/owners/owner_use.h"
#include "controller/plans/plans.h"
#include "protocol/messages.h"

namespace gangway {

struct NamedExecutable {
  std::string name;
  std::shared_ptr<const std::vector<std::byte>> program;  // In the wire form.
  uint64_t position = 0;                      // Position of the sources in its next run.
  std::shared_ptr<OwnerUse::Hold> held = {};  // The controller's memory for `program`.
};

class NamedExecutables {
 public:
  NamedExecutables(SessionId program, PlanTable& plans) : program_(program), plans_(plans) {}
  NamedExecutables(const NamedExecutables&) = delete;

  // Takes the name from an earlier executable that has it.
  void name(PlanId plan, NamedExecutable named);
  void drop(PlanId plan) { by_plan_.erase(plan); }
  // A run was sent, which reads the sources of its executable up to a position.
  void count_position(const RunFrame& run);
  // In the order in which they were compiled.
  const std::map<PlanId, NamedExecutable>& all() const { return by_plan_; }

 private:
  void require_room(PlanId plan, const NamedExecutable& named) const;

  const SessionId program_;
  PlanTable& plans_;
  std::map<PlanId, NamedExecutable> by_plan_;
};

}  // namespace gangway
