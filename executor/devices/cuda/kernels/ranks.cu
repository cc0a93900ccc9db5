// The arithmetic of an all-reduce between devices that see one another's memory: the same tensor of
// every rank, combined in the tree of collectives/hosts/rank_tree.h.
#include "executor/devices/cuda/kernels/math.h"
#include "executor/devices/cuda/kernels/rank_parts.h"

namespace gangway::cuda {

template <class T>
struct RankPointers {
  Global<const T> at[kRankPartsMax];
};

struct AddRanks {
  template <class T>
  GW_DEVICE T operator()(T a, T b) const {
    return op_add(a, b);
  }
};
struct MaxRanks {
  template <class T>
  GW_DEVICE T operator()(T a, T b) const {
    return op_max(a, b);
  }
};
struct MinRanks {
  template <class T>
  GW_DEVICE T operator()(T a, T b) const {
    return op_min(a, b);
  }
};

// Level k holds the combination of 2^k ranks; a rank that fills a level is joined with it, as a
// carry is in a sum. Unrolled, so that levels and pointers lie in registers.
template <class Join, class T>
GW_DEVICE void ranks(const RankPointers<T>& parts, Global<T> out, int64_t count, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    WideOf<T> levels[kRankLevels];
    GW_UNROLL
    for (int r = 0; r < kRankPartsMax; ++r) {
      if (r >= count) break;
      const T next = parts.at[r][i];
      WideOf<T> all = widen(next);
      int level = 0;
      GW_UNROLL
      for (; (r >> level & 1) != 0; ++level) all = Join()(levels[level], all);
      levels[level] = all;
    }
    WideOf<T> all{};
    bool begun = false;
    GW_UNROLL
    for (int level = 0; level < kRankLevels; ++level) {
      if ((count >> level & 1) == 0) continue;
      all = begun ? Join()(levels[level], all) : levels[level];
      begun = true;
    }
    out[i] = narrow<T>(all);
  }
}

#define GW_OF_TYPE(of, type)                                                               \
  GW_KERNEL void ranks_sum_##of(RankPointers<type> parts, Global<type> out, int64_t count, \
                                int64_t n) {                                               \
    ranks<AddRanks>(parts, out, count, n);                                                 \
  }                                                                                        \
  GW_KERNEL void ranks_max_##of(RankPointers<type> parts, Global<type> out, int64_t count, \
                                int64_t n) {                                               \
    ranks<MaxRanks>(parts, out, count, n);                                                 \
  }                                                                                        \
  GW_KERNEL void ranks_min_##of(RankPointers<type> parts, Global<type> out, int64_t count, \
                                int64_t n) {                                               \
    ranks<MinRanks>(parts, out, count, n);                                                 \
  }
GW_OF_TYPE(i32, int32_t)
GW_OF_TYPE(bf16, bf16)
GW_OF_TYPE(f32, float)
GW_OF_TYPE(f64, double)
#undef GW_OF_TYPE

#define GW_ENTRIES(of) GW_ENTRY(ranks_sum_##of), GW_ENTRY(ranks_max_##of), GW_ENTRY(ranks_min_##of)
GW_KERNEL_TABLE(ranks, GW_ENTRIES(i32), GW_ENTRIES(bf16), GW_ENTRIES(f32), GW_ENTRIES(f64));
#undef GW_ENTRIES

}  // namespace gangway::cuda
