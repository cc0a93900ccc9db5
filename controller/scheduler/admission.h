// Admission: whether the run whose turn it is may begin now, by what is under way and by memory.
//
// Back-pressure: at most Plan::runs_in_flight_max runs of a plan are under way; more of them wait,
// and runs of other plans may pass them.
// Memory: a plan's own slots hold the outputs of as many runs as may be in flight. When a client
// keeps more, memory is reserved for the run, in the units of the devices, on all its hosts or on
// none. A run that does not fit waits as long as a run in flight may free some, and later runs wait
// behind it: were they let past, it might never fit. Otherwise it is refused.
//
// Threads: the reactor's thread; nothing suspends.
// Cost: O(devices of the run).
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "controller/resources/objects.h"
#include "controller/scheduler/run.h"
#include "runtime/base/result.h"

namespace gangway {

class Admission {
 public:
  // "client \"trainer\"", for messages about memory.
  using OwnerName = std::function<std::string(SessionId)>;
  Admission(HostTable& hosts, ObjectTable& objects, OwnerName owner_name)
      : hosts_(hosts), objects_(objects), owner_name_(std::move(owner_name)) {}

  // Whether its plan lets one more run go.
  bool has_room(const RunRecord& run) const;
  // Reserves memory for its outputs. False: not yet, and nothing is reserved. An error: no run in
  // flight frees enough; kOverloaded, naming who holds what.
  Result<bool> admit(const RunRecord& run);

  void began(const RunRecord& run);
  void ended(const RunRecord& run);  // One that began.
  size_t in_flight() const { return in_flight_; }

 private:
  HostTable& hosts_;
  ObjectTable& objects_;
  OwnerName owner_name_;
  size_t in_flight_ = 0;
};

}  // namespace gangway
