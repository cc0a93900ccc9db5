// SimFabric: the memory that the simulated hosts of one process offer to one another, by number,
// and the network between them.
//
// With a reactor, a write arrives later, at the same virtual time: one after another, each time the
// oldest of an area that is drawn at random, while devices that were rung go on in between. Writes
// to one area thus arrive in their order, and areas in any order, as host_link.h allows. Without a
// reactor hosts write into one another's memory itself, like processes of one machine.
//
// Threads: the reactor's.
// Ownership: shared by the hosts of one simulation; the reactor outlives it. It holds no memory
// itself: an offer ends with the plan that it was made for, and a write under way holds what it
// needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/links/host_link.h"
#include "executor/work/bell.h"
#include "runtime/base/rng.h"
#include "runtime/fibers/fiber_group.h"

namespace gangway {

struct SimLines {
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> lines;

  explicit SimLines(int64_t bytes);
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(lines)); }
};

// One memory that a simulated host offers, and the bells of its devices.
struct SimMemory : SimLines {
  SimMemory(int64_t size, std::vector<Bell> of_devices, std::string name = {})
      : SimLines(size), bells(std::move(of_devices)), host(std::move(name)) {}

  std::vector<Bell> bells;
  std::string host;                         // The name of the host that offers it.
  std::map<uint64_t, const void*> writers;  // The host that writes each area, by its offset.
};

// An area of a peer's memory, as the host that writes it has it.
struct SimArea {
  struct Write {
    LinkPayload payload;
    uint64_t flag = 0, value = 0;
    std::vector<uint32_t> rings;  // Devices to ring behind it.
  };
  SimArea(std::shared_ptr<SimMemory> memory, uint64_t offset, int64_t bytes)
      : there(std::move(memory)), first(offset), mirror(bytes) {}

  bool has(uint64_t offset) const {
    return offset >= first && offset < first + mirror.lines.size() * sizeof(SimLines::Line);
  }
  std::byte* at(uint64_t offset) { return mirror.bytes().data() + (offset - first); }
  // Carries out the oldest write.
  void deliver();

  const std::shared_ptr<SimMemory> there;
  const uint64_t first;  // Its offset there.
  SimLines mirror;
  std::deque<Write> under_way;
};

class SimFabric {
 public:
  SimFabric() = default;
  explicit SimFabric(Reactor& reactor);
  SimFabric(const SimFabric&) = delete;

  // Memory that is new: a peer that it was offered to before may still write there.
  uint64_t add(const std::shared_ptr<SimMemory>& memory);
  std::shared_ptr<SimMemory> find(uint64_t number) const;
  // Memories that somebody has still: the host that offers one, or a peer.
  size_t size() const;

  // Whether writes are sent and arrive later.
  bool sends() const { return fibers_.has_value(); }
  void send(const std::shared_ptr<SimArea>& area, SimArea::Write write);
  // Writes of the host `from` to the memory of `to` are lost from now on.
  void break_link(const std::string& from, const std::string& to) { broken_.insert({from, to}); }
  bool is_broken(const std::string& from, const std::string& to) const {
    return !broken_.empty() && broken_.contains({from, to});
  }

 private:
  void deliver_next();
  void deliver_one();

  std::map<uint64_t, std::weak_ptr<SimMemory>> offers_;
  uint64_t last_ = 0;
  std::set<std::pair<std::string, std::string>> broken_;
  Rng rng_{0};
  std::vector<std::shared_ptr<SimArea>> busy_;  // Areas to which writes are under way.
  std::optional<FiberGroup> fibers_;            // None: it sends nothing.
};

}  // namespace gangway
