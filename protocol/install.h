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

// What a plan asks of one device of a host, in bytes; `total` is what its allocator is asked for,
// exactly, where nothing is overlaid.
struct DeviceNeed {
  uint32_t device = 0;
  int64_t arena = 0;  // Temporaries and scratchpads.
  int64_t state = 0;  // States that this plan would add.
  // Buffers with one copy for each run in flight: inputs, sources, outputs, transfers.
  int64_t slots = 0;
  // Temporaries of a plan that is overlaid: these bytes of the region that such plans share on the
  // device, which is as large as the largest of them. `arena` is then what initialisers of states
  // work in, until the plan is committed.
  int64_t overlaid = 0;
  int64_t total() const { return arena + state + slots + overlaid; }
};

// How the peers of a host reach the memory in which it receives for a plan: for the kind of link
// that joins them, and for nobody else, to read.
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

// Whose program a plan is of: of who runs the controller and its executors, or of anybody else, who
// may not read all files that an executor can, nor take all that its host has for texts.
struct PlanOwner {
  bool is_operator = true;
  std::string name = {};  // Owner as in protocol/owner.h; empty: not known.
  friend bool operator==(const PlanOwner&, const PlanOwner&) = default;
};

// A text that sources of a plan read: so many bytes of what lies at the path, and no more, even
// where it has grown since.
struct SourceText {
  std::string path;
  uint64_t bytes = 0;
  std::string hash;  // As to_string(Hash128).
  friend bool operator==(const SourceText&, const SourceText&) = default;
};
inline constexpr size_t kTextsMax = 1024;          // Limit for one plan.
inline constexpr size_t kTextPathBytesMax = 4096;  // As the system has it.

struct Installed {
  std::vector<DeviceNeed> needs;
  std::vector<LinkOffer> offers;
  std::vector<SourceText> texts;  // Texts that the host has loaded for the plan.
};

}  // namespace gangway
