#include "ir/transforms/memory/pack_intervals.h"

#include <algorithm>
#include <numeric>

namespace gangway {

int64_t pack_intervals(std::vector<LiveInterval>& intervals) {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return intervals[a].bytes > intervals[b].bytes; });
  std::vector<const LiveInterval*> placed;  // By offset.
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

}  // namespace gangway
