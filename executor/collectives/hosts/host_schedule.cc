#include "executor/collectives/hosts/host_schedule.h"

#include <algorithm>
#include <bit>

namespace gangway {
namespace {

using Kind = HostStep::Kind;

struct Part {
  uint32_t begin = 0, end = 0;
};

// `bits` lowest bits of `value`, in reverse.
uint32_t reversed(uint32_t value, int bits) {
  uint32_t out = 0;
  for (int bit = 0; bit < bits; ++bit) out |= (value >> bit & 1) << (bits - 1 - bit);
  return out;
}

// Walks the tree's blocks that contain one host, from the host alone to all hosts.
class Maker {
 public:
  Maker(uint32_t hosts, uint32_t self, uint32_t chunks) : hosts_(hosts), self_(self) {
    schedule_.chunks = chunks;
  }

  HostSchedule run() {
    reduce(0, hosts_);
    const uint32_t index = self_;
    if (index < holders(hosts_)) {
      const Part mine = part(holders(hosts_), index);
      add({Kind::kFinish, self_, mine.begin, mine.end});
    }
    gather(0, hosts_);
    return std::move(schedule_);
  }

 private:
  uint32_t holders(uint32_t block) const {
    return std::min(std::bit_floor(block), schedule_.chunks);
  }
  // Part of holder `index` of `holders`.
  Part part(uint32_t holders, uint32_t index) const {
    const uint32_t each = schedule_.chunks / holders;
    const uint32_t first = each * reversed(index, std::countr_zero(holders));
    return {first, first + each};
  }
  void add(const HostStep& step) { schedule_.steps.push_back(step); }

  // A block's two halves: hosts [first, first + left) and the `right` hosts behind.
  struct Halves {
    uint32_t first, left, right;
    uint32_t left_holders, right_holders;
    bool halving;  // Holder i of one exchanges with holder i of the other.
  };
  Halves halves(uint32_t first, uint32_t count) const {
    const uint32_t left = std::bit_floor(count - 1), right = count - left;
    return {first, left, right, holders(left), holders(right), holders(count) == 2 * holders(left)};
  }

  void reduce(uint32_t first, uint32_t count) {
    if (count == 1) return;
    const Halves block = halves(first, count);
    if (self_ < first + block.left) {
      reduce(first, block.left);
      reduce_left(block, self_ - first);
    } else {
      reduce(first + block.left, block.right);
      reduce_right(block, self_ - first - block.left);
    }
  }

  void reduce_left(const Halves& block, uint32_t index) {
    if (index >= block.left_holders) return;
    const uint32_t peer = block.first + block.left + index % block.right_holders;
    const Part kept = kept_by_left(block, index);
    if (block.halving) {
      const Part sent = part(2 * block.left_holders, index + block.left_holders);
      add({Kind::kSend, peer, sent.begin, sent.end});
    }
    add({Kind::kCombine, peer, kept.begin, kept.end});
  }

  void reduce_right(const Halves& block, uint32_t index) {
    if (index >= block.right_holders) return;
    for_each_left(block, index, [&](uint32_t peer, uint32_t i) {
      const Part sent = kept_by_left(block, i);
      add({Kind::kSend, peer, sent.begin, sent.end});
    });
    if (!block.halving) return;
    const Part kept = part(2 * block.left_holders, index + block.left_holders);
    add({Kind::kCombine, block.first + index, kept.begin, kept.end, true});
  }

  // The part of the whole block that left holder `index` holds.
  Part kept_by_left(const Halves& block, uint32_t index) const {
    return part(block.halving ? 2 * block.left_holders : block.left_holders, index);
  }

  // body(host, index) for the left holders that right holder `index` exchanges with.
  template <class Body>
  static void for_each_left(const Halves& block, uint32_t index, Body body) {
    for (uint32_t i = index; i < block.left_holders; i += block.right_holders)
      body(block.first + i, i);
  }

  void gather(uint32_t first, uint32_t count) {
    if (count == 1) return;
    const Halves block = halves(first, count);
    if (self_ < first + block.left) {
      gather_left(block, self_ - first);
      gather(first, block.left);
    } else {
      gather_right(block, self_ - first - block.left);
      gather(first + block.left, block.right);
    }
  }

  void gather_left(const Halves& block, uint32_t index) {
    if (index >= block.left_holders) return;
    const uint32_t peer = block.first + block.left + index % block.right_holders;
    const Part mine = kept_by_left(block, index);
    add({Kind::kSendResult, peer, mine.begin, mine.end});
    if (!block.halving) return;
    const Part theirs = part(2 * block.left_holders, index + block.left_holders);
    add({Kind::kTake, peer, theirs.begin, theirs.end});
  }

  void gather_right(const Halves& block, uint32_t index) {
    if (index >= block.right_holders) return;
    if (block.halving) {
      const Part mine = part(2 * block.left_holders, index + block.left_holders);
      add({Kind::kSendResult, block.first + index, mine.begin, mine.end});
    }
    for_each_left(block, index, [&](uint32_t peer, uint32_t i) {
      const Part theirs = kept_by_left(block, i);
      add({Kind::kTake, peer, theirs.begin, theirs.end});
    });
  }

  const uint32_t hosts_, self_;
  HostSchedule schedule_;
};

}  // namespace

HostSchedule reduce_schedule(uint32_t hosts, uint32_t self) {
  // There are as many holders as hosts, or so few that the last host may speak with all of them.
  const auto bits = static_cast<uint32_t>(std::bit_width(hosts - 1));
  const uint32_t chunks = std::has_single_bit(hosts) ? hosts : std::bit_floor(bits);
  return Maker(hosts, self, chunks).run();
}

HostSchedule exchange_schedule(uint32_t hosts, uint32_t self) {
  if (!std::has_single_bit(hosts)) return Maker(hosts, self, 1).run();
  HostSchedule schedule;
  for (uint32_t distance = 1; distance < hosts; distance *= 2) {
    const uint32_t peer = self ^ distance;
    schedule.steps.push_back({Kind::kSend, peer, 0, 1});
    schedule.steps.push_back({Kind::kCombine, peer, 0, 1, peer < self});
  }
  schedule.steps.push_back({Kind::kFinish, self, 0, 1});
  return schedule;
}

}  // namespace gangway
