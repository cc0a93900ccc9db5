// GraphCache: runs of commands that a device has launched before, as graphs: one launch for all of
// them.
//
// What is captured keeps its addresses, so a graph is known by all that they come from: the
// function, its first and last step, the device of the mesh and every base. The second time that
// the same comes it is captured, then replayed. Beyond kGraphsMax nothing new is captured.
//
// Threads: the device's. Ownership: the graphs are its own, idle when it dies. Errors: of a launch;
// what can't be captured is launched one by one for good. Cost: a hash of the bases, 1 ns each.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "executor/devices/cuda/driver.h"

namespace gangway::cuda {

struct GraphKey {
  uint64_t function = 0;  // Gpu::next_serial().
  uint32_t begin = 0, end = 0;
  uint32_t mesh_device = 0;
  std::span<std::byte* const> bases;
};

class GraphCache {
 public:
  static constexpr size_t kGraphsMax = 64;

  // `capture`: a stream of its own.
  GraphCache(Driver& driver, StreamHandle capture) : driver_(driver), capture_(capture) {}
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;

  // `issue` launches the commands on the stream that it is given. False: the caller must do so
  // itself; else `status` says how the graph's launch went.
  bool replay(At at, const GraphKey& key, const std::function<Status(StreamHandle)>& issue,
              Status& status);
  uint64_t launches() const { return launches_; }

 private:
  struct Entry {
    GraphKey key;
    std::vector<std::byte*> bases;
    GraphHandle graph;
    bool tried = false;
  };
  static uint64_t hash_of(const GraphKey& key);
  static bool same(const Entry& entry, const GraphKey& key);
  // What is sticky has ended the device; else the commands are launched one by one.
  Status capture(Entry& entry, const std::function<Status(StreamHandle)>& issue);

  Driver& driver_;
  const StreamHandle capture_;
  std::unordered_map<uint64_t, Entry> entries_;
  uint64_t launches_ = 0;
};

}  // namespace gangway::cuda
