#include "ir/transforms/memory/pack_intervals.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <queue>
#include <set>

namespace gangway {
namespace {

using Order = std::vector<size_t>;  // Indices of intervals.

template <class Before>
Order sorted(size_t count, Before before) {
  Order order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), before);
  return order;
}

int64_t pack_largest_first(std::vector<LiveInterval>& intervals) {
  const Order order = sorted(intervals.size(), [&](size_t a, size_t b) {
    return intervals[a].bytes > intervals[b].bytes;
  });
  std::vector<const LiveInterval*> placed;  // Ascending by offset.
  int64_t total = 0;
  for (size_t i : order) {
    LiveInterval& want = intervals[i];
    int64_t at = 0, best = -1, best_gap = 0;
    for (const LiveInterval* other : placed) {
      if (other->last < want.first || want.last < other->first) continue;
      const int64_t gap = other->offset - at;
      if (gap >= want.bytes && (best < 0 || gap < best_gap)) {
        best = at;
        best_gap = gap;
      }
      at = std::max(at, other->offset + other->bytes);
    }
    want.offset = best >= 0 ? best : at;
    total = std::max(total, want.offset + want.bytes);
    const auto after = std::upper_bound(
        placed.begin(), placed.end(), &want,
        [](const LiveInterval* a, const LiveInterval* b) { return a->offset < b->offset; });
    placed.insert(after, &want);
  }
  return total;
}

// The free pieces of an arena that grows at its end.
class FreeList {
 public:
  // Allocates in the smallest piece that is large enough, else at the end.
  int64_t take(int64_t bytes) {
    const auto piece = by_size_.lower_bound({bytes, 0});
    if (piece == by_size_.end()) return grow(bytes);
    const auto [size, at] = *piece;
    remove(at);
    add(at + bytes, size - bytes);
    return at;
  }

  void give_back(int64_t at, int64_t bytes) {
    const auto after = by_offset_.lower_bound(at);
    if (after != by_offset_.end() && after->first == at + bytes) {
      bytes += after->second;
      remove(after->first);
    }
    const auto next = by_offset_.lower_bound(at);
    if (next != by_offset_.begin()) {
      const auto [before, size] = *std::prev(next);
      if (before + size == at) {
        remove(before);
        at = before;
        bytes += size;
      }
    }
    add(at, bytes);
  }

  int64_t end() const { return end_; }

 private:
  // The last piece is part of it where that is free.
  int64_t grow(int64_t bytes) {
    int64_t at = end_;
    if (!by_offset_.empty()) {
      const auto [last, size] = *by_offset_.rbegin();
      if (last + size == end_) {
        at = last;
        remove(last);
      }
    }
    end_ = at + bytes;
    return at;
  }

  void add(int64_t at, int64_t bytes) {
    if (bytes == 0) return;
    by_offset_.emplace(at, bytes);
    by_size_.emplace(bytes, at);
  }
  void remove(int64_t at) {
    const auto piece = by_offset_.find(at);
    by_size_.erase({piece->second, at});
    by_offset_.erase(piece);
  }

  std::map<int64_t, int64_t> by_offset_;  // Bytes.
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

int64_t pack_as_they_begin(std::vector<LiveInterval>& intervals) {
  const Order order = sorted(intervals.size(), [&](size_t a, size_t b) {
    return intervals[a].first != intervals[b].first ? intervals[a].first < intervals[b].first
                                                    : intervals[a].bytes > intervals[b].bytes;
  });
  using End = std::pair<uint32_t, size_t>;  // The last step, and who.
  std::priority_queue<End, std::vector<End>, std::greater<>> live;
  FreeList arena;
  for (size_t i : order) {
    for (; !live.empty() && live.top().first < intervals[i].first; live.pop()) {
      const LiveInterval& over = intervals[live.top().second];
      arena.give_back(over.offset, over.bytes);
    }
    intervals[i].offset = arena.take(intervals[i].bytes);
    live.emplace(intervals[i].last, i);
  }
  return arena.end();
}

}  // namespace

int64_t pack_intervals(std::vector<LiveInterval>& intervals) {
  return intervals.size() <= kIntervalsComparedMax ? pack_largest_first(intervals)
                                                   : pack_as_they_begin(intervals);
}

}  // namespace gangway
