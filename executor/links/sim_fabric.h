// SimFabric: the memory that the simulated hosts of one process offer to one another, by number.
//
// Threads: the reactor's.
// Ownership: shared by the hosts of one simulation. It holds no memory itself: an offer ends with
// the plan that it was made for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "executor/work/bell.h"
#include "runtime/base/error.h"

namespace gangway {

// One memory that a simulated host offers, and the bells of its devices.
struct SimMemory {
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> lines;
  std::vector<Bell> bells;
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(lines)); }
};

class SimFabric {
 public:
  // Memory that is new: a peer that it was offered to before may still write there.
  uint64_t add(const std::shared_ptr<SimMemory>& memory) {
    std::erase_if(offers_, [](const auto& offer) { return offer.second.expired(); });
    for (const auto& [number, offered] : offers_)
      GW_ASSERT(offered.lock() != memory, "simulated host: this memory is offer ", number,
                " already");
    offers_[++last_] = memory;
    return last_;
  }
  std::shared_ptr<SimMemory> find(uint64_t number) const {
    const auto found = offers_.find(number);
    auto memory = found == offers_.end() ? nullptr : found->second.lock();
    if (memory == nullptr)
      throw Error(ErrorKind::kUnavailable, "simulated host: its peer is not in this simulation");
    return memory;
  }

  // Memories that somebody has still: the host that offers one, or a peer.
  size_t size() const {
    return static_cast<size_t>(
        std::ranges::count_if(offers_, [](const auto& offer) { return !offer.second.expired(); }));
  }

 private:
  std::map<uint64_t, std::weak_ptr<SimMemory>> offers_;
  uint64_t last_ = 0;
};

}  // namespace gangway
