// Admission: whether the next run may begin now, by the runs under way and by memory.
//
// Back-pressure: at most Plan::runs_in_flight_max runs of a plan are under way.
// Memory: a plan's own slots hold the outputs of as many runs as may be in flight. When a client
// keeps more, memory is reserved for the run, in the units of the devices, on all its hosts or on
// none. A run that does not fit is *short*: it waits as long as a run in flight there may free
// memory, and later runs that need memory of the same devices wait behind it. If they were let
// past, it might never fit. Where no run in flight may free memory, the run is refused.
//
// Threads: the reactor's thread; nothing suspends.
// Cost: O(hosts of the run), and as much again for each short run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "controller/hosts/objects.h"
#include "controller/scheduler/run.h"
#include "runtime/base/result.h"

namespace gangway {

class Admission {
 public:
  Admission(HostTable& hosts, ObjectTable& objects, const ProgramNames& names)
      : hosts_(hosts), objects_(objects), names_(names) {}

  // Whether the run's plan lets one more run go.
  bool has_room(const RunRecord& run) const;
  // Reserves memory for the run's outputs. False: the run is short, and nothing is reserved. An
  // error: no run in flight frees enough; kOverloaded, naming who holds what.
  Result<bool> admit(const RunRecord& run);
  // For a short run: whether memory was too little, and it did not only wait behind another one.
  bool lacks_memory(const RunRecord& run) const { return short_.at(run.id).lacks_memory; }
  // Runs to admit again when memory was freed, oldest first.
  std::vector<RunId> short_runs() const;

  // The run is held: no other waits behind it until it is admitted anew.
  void leave_line(const RunRecord& run) { short_.erase(run.id); }

  void began(const RunRecord& run);
  void ended(const RunRecord& run);  // Whether the run began or not.

 private:
  bool is_behind_a_short_run(const RunRecord& run) const;

  HostTable& hosts_;
  ObjectTable& objects_;
  const ProgramNames& names_;
  struct Short {
    const PlanRecord* plan = nullptr;
    bool lacks_memory = false;
  };
  std::map<RunId, Short> short_;
};

}  // namespace gangway
