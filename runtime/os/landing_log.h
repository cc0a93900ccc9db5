// LandingLog: records to which transfer the bytes of shared segments belong, so that a simulated
// cluster finds every write into memory that has been handed to another transfer meanwhile.
//
// The rule that it checks applies to all memory that another process writes: memory of clients, of
// snapshots, of checkpoints, and between hosts. Such memory is handed out again only when its
// writer itself has reported that it is done. A lost writer may only have been stopped; when it is
// resumed, it writes what it has queued. No other process can report for it. A client gives up such
// memory (client/bulk.h), checkpoints get a new segment each, and hosts get new memory for
// each plan that is installed (executor/links/host_link.h).
//
// The controller records which transfer has which bytes, and hosts record where they write. Peers
// write into a host's memory for links many times in each run, so those writes are not logged one
// by one. The log checks instead that a host offers each such memory for one plan only. Tests check
// broken() when the cluster ends (tests/support/checked_order.cc).
//
// Threads: any.
// Cost: a lock and a look into two maps for each transfer; without a log, a branch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/os/shared_segment.h"

namespace gangway {

class LandingLog {
 public:
  struct Bytes {
    SegmentDescriptor segment;
    int64_t offset = 0, bytes = 0;
  };
  // The request moves these bytes for `tenant`. Several requests may have one tenant, which is
  // responsible for their order. Earlier tenants of any of the bytes may no longer write there.
  void begins(uint64_t request, uint64_t tenant, const Bytes& at);
  // A device writes these bytes for that request.
  void writes(const std::string& device, uint64_t request, const Bytes& at);
  // A host offers memory to the other hosts of a plan, which write there as long as they live.
  // `offer`: the bytes by which they open it. `plan` says whose plan it is, for people.
  void offers(const std::string& plan, const std::vector<std::byte>& offer);
  // The writes and offers that broke the rule, one a line; empty if there were none.
  std::string broken() const;

 private:
  using Place = std::pair<uint64_t, int64_t>;  // The segment's token, and an offset.
  struct Held {
    int64_t end = 0;
    uint64_t tenant = 0;
  };

  mutable std::mutex mutex_;
  std::map<Place, Held> held_;  // Keyed by their beginnings; they do not overlap.
  std::map<std::pair<uint64_t, Place>, uint64_t> tenants_;  // Tenant of each request's bytes.
  std::map<std::string, std::string> offered_;  // Plans, keyed by the bytes of their offers.
  std::string broken_;
};

// Returns a new log, which is checked when its last holder releases it. Only test programs define
// this function (tests/support/checked_order.cc).
std::shared_ptr<LandingLog> landing_log_of_test() __attribute__((weak));

}  // namespace gangway
