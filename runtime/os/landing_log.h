// LandingLog: which transfer the bytes of shared segments belong to, so that a simulated cluster
// finds every write into memory that was handed to another transfer meanwhile.
//
// The rule that it checks holds for all memory that another process writes: of clients, of
// snapshots, of checkpoints, and between hosts. Such memory is handed out again only when its
// writer has said itself that it is done. A writer that is lost may have been stopped only, and
// writes what it has queued when it goes on; nobody else can speak for it. A client gives up such
// memory (client/segment_heap.h), checkpoints get a new segment each, and hosts get new memory for
// each plan that is installed (executor/links/host_link.h).
//
// The controller says which transfer has which bytes, and hosts say where they write. Tests check
// broken() when the cluster ends (tests/support/checked_order.cc).
//
// Threads: any.
// Cost: a lock and a look into two maps for each transfer; without a log, a branch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/os/shared_segment.h"

namespace gangway {

class LandingLog {
 public:
  struct Bytes {
    SegmentDescriptor segment;
    int64_t offset = 0, bytes = 0;
  };
  // The request moves these bytes for `tenant`; several requests may have one tenant, which answers
  // for their order. Whoever had any of the bytes before may write there no more.
  void begins(uint64_t request, uint64_t tenant, const Bytes& at);
  // A device writes there for that request.
  void writes(const std::string& device, uint64_t request, const Bytes& at);
  // What broke the rule, a line each; empty: nothing.
  std::string broken() const;

 private:
  using Place = std::pair<uint64_t, int64_t>;  // The segment's token, and an offset.
  struct Held {
    int64_t end = 0;
    uint64_t tenant = 0;
  };

  mutable std::mutex mutex_;
  std::map<Place, Held> held_;  // By where they begin; they do not overlap.
  std::map<std::pair<uint64_t, Place>, uint64_t> tenants_;  // Of requests.
  std::string broken_;
};

// A new log, which is checked when its last holder lets it go. Only programs of tests define this
// (tests/support/checked_order.cc).
std::shared_ptr<LandingLog> landing_log_of_test() __attribute__((weak));

}  // namespace gangway
