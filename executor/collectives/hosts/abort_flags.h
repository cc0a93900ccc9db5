// AbortFlags: the abort flags that the members of a group raise outside of collectives. A host
// keeps two words for each member in its own memory: the number that the member raised last, and
// whether it raised one about everything. A member that raises an abort flag writes it to every
// host of the group: failures are rare, and must not depend on hosts in between.
//
// Threads: any.
// Ownership: memory and bells are the plan's. Cost: alarmed() reads 2 words a member.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/links/host_link.h"

namespace gangway {

class AbortFlags {
 public:
  static int64_t bytes(uint32_t members) { return int64_t{2} * members * kWordBytes; }

  // A host of the group, which may be this one.
  struct Host {
    PeerMemory* memory = nullptr;
    uint64_t words = 0;             // Offset at which they begin.
    std::vector<uint32_t> devices;  // Devices that wait there.
  };
  // `own` has this host's words, from offset `words`.
  AbortFlags(const OwnMemory& own, uint64_t words, uint32_t members, std::vector<Host> hosts)
      : own_(own), words_(words), members_(members), hosts_(std::move(hosts)) {}

  void raise(uint32_t member, uint64_t what) const {
    const bool everything = what == Collective::kEverything;
    const uint64_t word = uint64_t{2} * member + (everything ? 1 : 0);
    for (const Host& host : hosts_) {
      host.memory->signal(host.words + word * kWordBytes, everything ? 1 : what);
      for (const uint32_t device : host.devices) host.memory->ring(device);
    }
  }
  bool raised(uint64_t what) const {
    for (uint32_t word = 0; word < 2 * members_; ++word) {
      const uint64_t value = own_.word(words_ + word * kWordBytes).load(std::memory_order_acquire);
      if (word % 2 == 1 ? value != 0 : value == what) return true;
    }
    return false;
  }

 private:
  static constexpr uint64_t kWordBytes = sizeof(std::atomic<uint64_t>);

  const OwnMemory& own_;
  const uint64_t words_;
  const uint32_t members_;
  const std::vector<Host> hosts_;
};

}  // namespace gangway
