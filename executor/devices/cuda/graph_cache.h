// GraphCache: runs of commands that a device has launched before, as graphs: one launch for all of
// them.
//
// A captured graph keeps its addresses, so its key holds everything that determines them: the
// function, where in it the commands begin and end, the device of the mesh and every base. When the
// same key comes a second time the commands are captured, and replayed from then on. A plan whose
// buffers change with every run thus costs a look-up and never a capture.
//
// A capture costs as much as many launches, so no more than kGraphsMax graphs are kept, and they do
// not replace one another in a cycle: a new one replaces the least recently used one, and only if
// that was not used since the new one was last seen. If more stretches of commands repeat than
// there is room for, the first captured ones stay.
//
// Invariant: a graph is destroyed when its last launch is done. An event tells that for a graph of
// a function that still exists; a graph of a function that is gone is idle, since the runs of the
// function have waited for their marks.
// Threads: the device's.
// Ownership: the graphs are its own, and idle when it is destroyed; each keeps the modules and
// prepared operations that it launches, also without its function.
// Errors: those of a launch; commands that can't be captured are launched one by one from then on.
// Cost: a hash of the bases, 1 ns each.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "executor/devices/cuda/driver/driver.h"

namespace gangway::cuda {

// The function that a graph is a part of.
struct GraphOwner {
  uint64_t serial = 0;                // Gpu::next_serial().
  std::weak_ptr<const void> alive;    // Expired: the function is gone.
  std::shared_ptr<const void> keeps;  // Objects that its commands use.
};

struct GraphKey {
  const GraphOwner& owner;
  uint64_t begin = 0, end = 0;  // Places in the function.
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
  // itself; else `status` says how the graph's launch went. All on one stream.
  bool replay(At at, const GraphKey& key, const std::function<Status(StreamHandle)>& issue,
              Status& status);
  // Drops the graphs of functions that are gone.
  void trim();

  uint64_t launches() const { return launches_; }
  uint64_t captures() const { return captures_; }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    GraphOwner owner;
    uint64_t begin = 0, end = 0;
    uint32_t mesh_device = 0;
    std::vector<std::byte*> bases;
    GraphHandle graph;  // Null: it can't be captured.
    uint64_t used = 0;
  };
  struct Retired {
    GraphHandle graph;
    EventHandle done;
    std::shared_ptr<const void> keeps;
  };
  // Sightings of what has no entry, by hash, in two generations: the older one goes when the newer
  // one is full.
  struct Sightings {
    static constexpr size_t kMax = 512;
    std::unordered_map<uint64_t, uint64_t> newer, older;
    // When it was last seen, or 0; from now on: `now`.
    uint64_t see(uint64_t hash, uint64_t now);
  };

  static uint64_t hash_of(const GraphKey& key);
  static bool same(const Entry& entry, const GraphKey& key);
  // A sticky error has ended the device; after any other the commands are launched one by one.
  Status capture(Entry& entry, const std::function<Status(StreamHandle)>& issue);
  bool make_room(StreamHandle stream, uint64_t seen);
  void retire(StreamHandle stream, Entry& entry);
  void destroy_retired();

  Driver& driver_;
  const StreamHandle capture_;
  std::unordered_map<uint64_t, Entry> entries_;  // Keys are hashes.
  Sightings sightings_;
  std::deque<Retired> retired_;  // In the order of their events.
  uint64_t now_ = 0;             // Counts replay().
  uint64_t launches_ = 0, captures_ = 0;
};

}  // namespace gangway::cuda
