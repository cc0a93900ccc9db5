// Gather of rows, the largest k, and sorting.
#include "executor/devices/cuda/kernels/ranking.h"

namespace gangway::cuda {

// out[n, dim] = table[index[n], dim]; zeros where the index is out of range. T: any of that size,
// or several elements of a row.
template <class T>
GW_KERNEL_TEMPLATE void gather_rows(Global<const T> table, Global<const int32_t> index,
                                    Global<T> out, int64_t rows, int64_t dim, int64_t n) {
  for (int64_t i = global_thread(); i < n * dim; i += global_threads()) {
    const int32_t row = index[i / dim];
    T value = {};
    if (row >= 0 && row < rows) value = table[row * dim + i % dim];
    out[i] = value;
  }
}

// The k largest of each row of x[rows, n], in falling order: a block for each row. Each turn finds
// the first that comes after the one before.
template <class T>
GW_KERNEL_TEMPLATE void top_k(Global<const T> x, Global<T> values, Global<int32_t> indices,
                              int64_t n, int64_t k) {
  using W = WideOf<T>;
  const int64_t row = block_index().x;
  const Global<const T> from = x + row * n;
  Ranked<W> last = {0, -1};
  for (int64_t turn = 0; turn < k; ++turn) {
    Ranked<W> best = {0, -1};
    for (int64_t c = thread_index().x; c < n; c += block_size().x) {
      const Ranked<W> here = {wide_at(from, c), static_cast<int32_t>(c)};
      if ((turn == 0 || before(last, here)) && before(here, best)) best = here;
    }
    last = reduce_block<First>(best, Ranked<W>{0, -1});
    if (thread_index().x != 0) continue;
    values[row * k + turn] = narrow<T>(last.value);
    indices[row * k + turn] = last.index;
  }
}

// Sorts ascending, stable, NaN last: each element counts the elements before it. O(n^2) a row.
template <class T>
GW_KERNEL_TEMPLATE void sort_rows(Global<const T> in, Global<T> values, Global<int32_t> order,
                                  int64_t columns, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const int64_t first = i / columns * columns, column = i - first;
    const WideOf<T> mine = wide_at(in, i);
    int64_t rank = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const WideOf<T> other = wide_at(in, first + c);
      if (larger(mine, other) || (!larger(other, mine) && c < column)) ++rank;
    }
    const T value = in[i];
    values[first + rank] = value;
    order[first + rank] = static_cast<int32_t>(column);
  }
}

GW_KERNEL_TABLE(index, GW_INSTANCE("gather_rows_1", gather_rows<uint8_t>),
                GW_INSTANCE("gather_rows_2", gather_rows<uint16_t>),
                GW_INSTANCE("gather_rows_4", gather_rows<uint32_t>),
                GW_INSTANCE("gather_rows_8", gather_rows<uint64_t>),
                GW_INSTANCE("gather_rows_16", gather_rows<Strip<uint64_t, 2>>),
                GW_INSTANCE("top_k_i32", top_k<int32_t>), GW_INSTANCE("top_k_bf16", top_k<bf16>),
                GW_INSTANCE("top_k_f32", top_k<float>), GW_INSTANCE("top_k_f64", top_k<double>),
                GW_INSTANCE("sort_rows_i32", sort_rows<int32_t>),
                GW_INSTANCE("sort_rows_bf16", sort_rows<bf16>),
                GW_INSTANCE("sort_rows_f32", sort_rows<float>),
                GW_INSTANCE("sort_rows_f64", sort_rows<double>));

}  // namespace gangway::cuda
