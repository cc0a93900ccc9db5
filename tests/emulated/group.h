// Group: the members of an emulated communicator, and the collectives that they are in.
//
// A collective runs when every member has come to it in its own stream: who comes early waits
// there, as on a card. Threads: the machine's lock.
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
struct Meeting {
  std::string what;                                    // Its kind, sizes and types: equal for all.
  std::vector<std::vector<CollectiveTensor>> tensors;  // By rank.
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
  std::set<uint32_t> members;
  bool aborted = false;
  std::map<uint64_t, std::shared_ptr<Meeting>> meetings;
  // Sender, receiver, number among their messages.
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, std::shared_ptr<Letter>> letters;
};

struct EmulatedDriver::Comm {
  std::shared_ptr<Group> group;
  uint32_t rank = 0;
  uint64_t next = 0;
  std::map<uint32_t, uint64_t> sent, received;  // By peer.
  bool told = false;                            // The host has seen that it was aborted.
};

}  // namespace gangway::emulated
