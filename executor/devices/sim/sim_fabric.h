// SimFabric: how the simulated hosts of one process ring one another's devices. Those have no
// thread that parks on a doorbell, so a ring is a call.
//
// Threads: the reactor's.
// Ownership: shared by the hosts of one simulation.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "executor/work/bell.h"
#include "runtime/base/error.h"

namespace gangway {

class SimFabric {
 public:
  // `host`: the token of the segment in which the host offers its bells.
  void add(uint64_t host, std::vector<Bell> bells) { bells_[host] = std::move(bells); }
  void remove(uint64_t host) { bells_.erase(host); }
  Bell bell(uint64_t host, uint32_t device) const {
    auto found = bells_.find(host);
    GW_REQUIRE(found != bells_.end() && device < found->second.size(),
               "simulated host: its peer is not in the same simulation");
    return found->second[device];
  }

 private:
  std::map<uint64_t, std::vector<Bell>> bells_;
};

}  // namespace gangway
