// Group: the members of an emulated communicator, and the collectives that they are in.
//
// A collective runs when every member has reached it in its own stream. A member that comes early
// waits there, as on a card. It waits for ever if another member's communicator or device is gone.
// Threads: the machine's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/emulated/emulated_driver.h"

namespace gangway::emulated {

// One collective of all members.
struct Rendezvous {
  std::string what;                                    // Kind, sizes and types, equal for all.
  std::vector<std::vector<CollectiveTensor>> tensors;  // Index: rank.
  std::set<uint32_t> arrived;
  bool ran = false;
};

// One message between two members.
struct Letter {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0, room = 0;
  bool sent = false, awaited = false, delivered = false;
};

struct Group {
  uint32_t size = 0;
  std::map<uint32_t, std::weak_ptr<EmulatedDriver::Comm>> members;
  std::map<uint64_t, std::shared_ptr<Rendezvous>> rendezvous;
  // Key: sender, receiver, and the number of the message among theirs.
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, std::shared_ptr<Letter>> letters;
};

// A member's communicator. Peers do not learn that it broke or was aborted: they wait inside their
// own communicators until they abort them.
struct EmulatedDriver::Comm {
  std::shared_ptr<Group> group;
  uint32_t device = 0;
  uint32_t rank = 0;
  uint64_t next = 0;
  uint64_t in_flight = 0;                       // Operations that were enqueued and have not run.
  std::map<uint32_t, uint64_t> sent, received;  // Numbers of messages. Key: the peer's rank.
  bool aborted = false;
  bool broken = false;  // It acts as if a link went down: nothing that it waits for ever comes.
  bool destroyed = false;
  bool told = false;  // The host has seen that it ended.
};

}  // namespace gangway::emulated
