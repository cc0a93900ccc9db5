// out[row] = the sum of all updates[i] with index[i] == row, for rows that have any.
//
// Keys with index[i] in the upper half and i in the lower are sorted: a block sorts each tile, then
// runs are merged two by two. Then a block for each piece of kScatterPiece keys sums the
// consecutive updates of each row. Sums of rows in more than one piece go to `parts`, and
// scatter_join() adds those. A row's updates keep their order and pieces follow from the indices,
// so that the bits do too. An index out of range is skipped.
#include "executor/devices/cuda/kernels/launch_sizes.h"
#include "executor/devices/cuda/kernels/row.h"

namespace gangway::cuda {

// The row of a key. All keys differ, since each has the number of its update.
GW_DEVICE int64_t row_of(uint64_t key) { return static_cast<int64_t>(key >> 32); }

// Each block sorts a tile of twice as many keys as it has threads; both are powers of two.
GW_KERNEL void scatter_sort_tiles(Global<const int32_t> index, Global<uint64_t> keys, int64_t n) {
  GW_SHARED(uint64_t, tile, kScatterTile);
  const int64_t thread = thread_index().x, half = block_size().x, size = 2 * half;
  const int64_t first = block_index().x * size;
  for (int64_t at = thread; at < size; at += half) {
    uint64_t key = ~uint64_t{0};
    if (first + at < n) {
      const int32_t row = index[first + at];
      key = static_cast<uint64_t>(static_cast<uint32_t>(row)) << 32 |
            static_cast<uint64_t>(first + at);
    }
    tile[at] = key;
  }
  // Bitonic sort: a thread puts two keys in order, ascending where `rises`.
  for (int64_t run = 2; run <= size; run *= 2) {
    for (int64_t apart = run / 2; apart > 0; apart /= 2) {
      sync_block();
      const int64_t low = 2 * thread - (thread & (apart - 1));
      const uint64_t a = tile[low], b = tile[low + apart];
      const bool rises = (low & run) == 0;
      if ((a > b) == rises) {
        tile[low] = b;
        tile[low + apart] = a;
      }
    }
  }
  sync_block();
  for (int64_t at = thread; at < size && first + at < n; at += half) {
    const uint64_t key = tile[at];
    keys[first + at] = key;
  }
}

// Merges sorted runs of `run` keys into runs of twice as many: a key's new index is the number of
// keys before it in its own run and in the other one.
GW_KERNEL void scatter_merge(Global<const uint64_t> from, Global<uint64_t> to, int64_t run,
                             int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const uint64_t key = from[i];
    const int64_t own = i / run, begin = (own ^ 1) * run;
    int64_t low = begin < n ? begin : n, high = begin + run < n ? begin + run : n;
    const int64_t other = low;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      const uint64_t there = from[middle];
      if (there < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    to[own / 2 * 2 * run + (i - own * run) + (low - other)] = key;
  }
}

template <class T, int kCount>
GW_DEVICE void add_strip(Strip<T, kCount>& sum, const Strip<T, kCount>& more) {
  GW_UNROLL for (int e = 0; e < kCount; ++e) sum.at[e] += more.at[e];
}

// parts[pieces, 2, dim]: a piece's sum for a row that began in an earlier piece, then its sum for a
// row that begins in it and goes on in the next. Where there is no such row, parts are not written.
template <class T>
GW_KERNEL_TEMPLATE void scatter_pieces(Global<const uint64_t> keys, Global<const T> updates,
                                       Global<T> out, Global<WideOf<T>> parts, int64_t rows,
                                       int64_t dim, int64_t n) {
  GW_SHARED(uint64_t, near, kScatterPiece + 2);  // With a neighbour on either side.
  const int64_t piece = block_index().x, begin = piece * kScatterPiece;
  const int64_t end = begin + kScatterPiece < n ? begin + kScatterPiece : n;
  for (int64_t i = begin - 1 + thread_index().x; i <= end; i += block_size().x) {
    uint64_t key = ~uint64_t{0};
    if (i >= 0 && i < n) key = keys[i];
    near[i - begin + 1] = key;
  }
  sync_block();
  const auto row_at = [&](int64_t i) {
    const uint64_t key = near[i - begin + 1];
    return row_of(key);
  };
  each_strip<T>(dim, [&](int64_t at, auto width) {
    Strip<WideOf<T>, width.kCount> sum = {};
    bool continued = begin > 0 && row_at(begin - 1) == row_at(begin);
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t key = near[i - begin + 1];
      const int64_t row = row_of(key);
      if (row >= rows) return;  // All rows behind it are out of range too.
      add_strip(sum, load_strip<width.kCount>(updates + (key & 0xffffffffu) * dim, at));
      const bool goes_on = i + 1 < n && row_at(i + 1) == row;
      if (goes_on && i + 1 < end) continue;
      if (continued || goes_on) {
        store_strip<width.kCount>(parts + (2 * piece + (continued ? 0 : 1)) * dim, at, sum);
      } else {
        store_strip<width.kCount>(out + row * dim, at, sum);
      }
      continued = false;
      sum = {};
    }
  });
}

// A block for each piece; it does something where a row begins in it and goes on in the next.
template <class T>
GW_KERNEL_TEMPLATE void scatter_join(Global<const uint64_t> keys, Global<const WideOf<T>> parts,
                                     Global<T> out, int64_t rows, int64_t dim, int64_t n) {
  using W = WideOf<T>;
  const int64_t piece = block_index().x, begin = piece * kScatterPiece;
  const auto row_at = [&](int64_t i) {
    const uint64_t key = keys[i];
    return row_of(key);
  };
  const int64_t next = begin + kScatterPiece;
  if (next >= n) return;
  const int64_t row = row_at(next - 1);
  if (row >= rows || row_at(next) != row) return;
  // It began in an earlier piece.
  if (begin > 0 && row_at(begin) == row && row_at(begin - 1) == row) return;
  int64_t last = piece + 1;  // The piece in which the row ends.
  while ((last + 1) * kScatterPiece < n && row_at((last + 1) * kScatterPiece) == row) ++last;
  for (int64_t c = thread_index().x; c < dim; c += block_size().x) {
    W sum = parts[(2 * piece + 1) * dim + c];
    for (int64_t p = piece + 1; p <= last; ++p) sum += wide_at(parts, 2 * p * dim + c);
    out[row * dim + c] = narrow<T>(sum);
  }
}

GW_KERNEL_TABLE(scatter, GW_ENTRY(scatter_sort_tiles), GW_ENTRY(scatter_merge),
                GW_INSTANCE("scatter_pieces_bf16", scatter_pieces<bf16>),
                GW_INSTANCE("scatter_pieces_f32", scatter_pieces<float>),
                GW_INSTANCE("scatter_pieces_f64", scatter_pieces<double>),
                GW_INSTANCE("scatter_join_bf16", scatter_join<bf16>),
                GW_INSTANCE("scatter_join_f32", scatter_join<float>),
                GW_INSTANCE("scatter_join_f64", scatter_join<double>));

}  // namespace gangway::cuda
