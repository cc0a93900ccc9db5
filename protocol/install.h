// A host's answer when a plan is installed on it: the memory that its devices need, and its offers
// to its peers.
//
// Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/messages.h"

namespace gangway {

// Memory that a plan needs on one device of a host, in bytes. The device's allocator is asked for
// exactly `total()`, unless the plan is overlaid.
struct DeviceNeed {
  uint32_t device = 0;
  int64_t arena = 0;  // Temporaries and scratchpads.
  int64_t state = 0;  // States that this plan would add.
  // Buffers with one copy for each run in flight: inputs, sources, outputs, transfers.
  int64_t slots = 0;
  // Temporaries of an overlaid plan: the bytes that it needs of the region that such plans share on
  // the device. The region is as large as the largest need. `arena` is then the memory in which
  // initialisers of states run until the plan is committed.
  int64_t overlaid = 0;
  int64_t total() const { return arena + state + slots + overlaid; }
};

// Tells the peers of a host how to reach the memory in which the host receives for a plan. Only the
// kind of link that connects the two hosts reads the bytes.
struct LinkOffer {
  uint32_t host = 0;  // Index of the host in the plan.
  std::vector<std::byte> bytes;
};

// Programs whose states go to host memory, or come back from there.
struct MoveRequest {
  std::vector<PlanId> plans;
  std::vector<StateScope> scopes;
  bool to_host = true;
};

// The owner of the program that a plan belongs to: the operator, who runs the controller and its
// executors, or another user. A plan of another user may not read every file that the executor can
// read, and may not take all the memory that the host has for texts.
struct PlanOwner {
  bool is_operator = true;
  std::string name = {};  // Owner as in protocol/owner.h; empty: not known.
  friend bool operator==(const PlanOwner&, const PlanOwner&) = default;
};

// A text that sources of a plan read: the first `bytes` bytes of the file at `path`, even if the
// file has grown since.
struct SourceText {
  std::string path;
  uint64_t bytes = 0;
  std::string hash;  // In the form of to_string(Hash128).
  friend bool operator==(const SourceText&, const SourceText&) = default;
};
inline constexpr size_t kTextsMax = 1024;          // Limit for one plan.
inline constexpr size_t kTextPathBytesMax = 4096;  // The operating system's limit.

struct Installed {
  std::vector<DeviceNeed> needs;
  std::vector<LinkOffer> offers;
  std::vector<SourceText> texts;  // Texts that the host has loaded for the plan.
  // Indices in the plan of the other hosts that this one writes to: it needs their offers.
  std::vector<uint32_t> writes_to = {};
};

}  // namespace gangway
