// AbortFlags: the abort flags that the members of a group raise outside of collectives. A host has
// an area in its own memory for each host of the group, itself too, with two words for each member
// there: the number that the member raised last, and whether it raised one about everything. A
// member that raises an abort flag writes it to every host of the group: failures are rare, and
// must not depend on hosts in between.
//
// Threads: any.
// Ownership: memory and bells are the plan's. Cost: raised() reads 2 words a member.
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
  // Bytes of the area that a host with so many members writes.
  static int64_t bytes(uint32_t members) { return int64_t{2} * members * kWordBytes; }

  // The words of a host's members in this host's memory.
  struct Words {
    uint64_t first = 0;  // Offset.
    uint32_t members = 0;
  };
  // A host of the group, which may be this one.
  struct Host {
    PeerMemory* memory = nullptr;
    uint64_t words = 0;             // Offset at which those of this host's members begin there.
    std::vector<uint32_t> devices;  // Devices that wait there.
  };
  AbortFlags(const OwnMemory& own, std::vector<Words> words, std::vector<Host> hosts)
      : own_(own), words_(std::move(words)), hosts_(std::move(hosts)) {}

  // `index`: the member's among those of this host.
  void raise(uint32_t index, uint64_t what) const {
    const bool everything = what == Collective::kEverything;
    const uint64_t word = uint64_t{2} * index + (everything ? 1 : 0);
    for (const Host& host : hosts_) {
      host.memory->signal(host.words + word * kWordBytes, everything ? 1 : what);
      for (const uint32_t device : host.devices) host.memory->ring(device);
    }
  }
  bool raised(uint64_t what) const {
    for (const Words& words : words_) {
      for (uint32_t word = 0; word < 2 * words.members; ++word) {
        const uint64_t value =
            own_.word(words.first + word * kWordBytes).load(std::memory_order_acquire);
        if (word % 2 == 1 ? value != 0 : value == what) return true;
      }
    }
    return false;
  }

 private:
  static constexpr uint64_t kWordBytes = sizeof(std::atomic<uint64_t>);

  const OwnMemory& own_;
  const std::vector<Words> words_;
  const std::vector<Host> hosts_;
};

}  // namespace gangway
