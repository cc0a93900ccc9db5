// HostWatch: declares hosts lost, and tells everybody who has to do with them.
//
// A host is lost when it has sent nothing for so long, or when its connection ends. It stays lost:
// plans that use it are broken, copies and runs under way on it fail, whoever awaits an answer of
// it stops waiting, and its connection is closed from this side, so that an executor that was only
// suspended notices it when it resumes. It registers again as a new host.
//
// Threads: the reactor's thread; nothing suspends.
// Cost: tick() O(hosts); a loss O(plans + runs).
#pragma once

#include <cstdint>

#include "controller/copies/copies.h"
#include "controller/scheduler/runs.h"

namespace gangway {

class HostWatch {
 public:
  HostWatch(HostTable& hosts, PlanTable& plans, CopyTable& copies, RunTable& runs,
            int64_t timeout_ms)
      : hosts_(hosts), plans_(plans), copies_(copies), runs_(runs), timeout_ms_(timeout_ms) {}

  // Null: the host is not there, or lost: what still comes of it is ignored.
  HostRecord* heard_of(HostId host, int64_t now_ns);
  // Once more is ignored.
  void lose(HostId host, const Error& why);
  // Looks for silent hosts; says when to look again.
  int64_t tick(int64_t now_ns);

 private:
  HostTable& hosts_;
  PlanTable& plans_;
  CopyTable& copies_;
  RunTable& runs_;
  const int64_t timeout_ms_;
};

}  // namespace gangway
