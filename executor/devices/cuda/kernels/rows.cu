// Kernels with one block for each row: sum and softmax.
#include "executor/devices/cuda/kernels/block_reduce.h"

namespace gangway::cuda {

// in[rows, columns] -> out[rows]
template <class T>
GW_DEVICE void row_sum(Global<const T> in, Global<T> out, int64_t columns) {
  const int64_t row = block_index().x;
  const Global<const T> x = in + row * columns;
  WideOf<T> sum = 0;
  for (int64_t c = thread_index().x; c < columns; c += block_size().x) {
    const T value = x[c];
    sum += widen(value);
  }
  sum = reduce_block<Sum, WideOf<T>>(sum, 0);
  if (thread_index().x == 0) out[row] = narrow<T>(sum);
}

// in[rows, columns] -> out[rows, columns]; `out` may be `in`.
template <class T>
GW_DEVICE void softmax_rows(Global<const T> in, Global<T> out, int64_t columns) {
  using W = WideOf<T>;
  const int64_t first = static_cast<int64_t>(block_index().x) * columns;
  const Global<const T> x = in + first;
  const Global<T> y = out + first;
  const W lowest = -static_cast<W>(INFINITY);
  W largest = lowest;
  for (int64_t c = thread_index().x; c < columns; c += block_size().x) {
    const T value = x[c];
    largest = Largest()(largest, static_cast<W>(widen(value)));
  }
  largest = reduce_block<Largest, W>(largest, lowest);
  W sum = 0;
  for (int64_t c = thread_index().x; c < columns; c += block_size().x) {
    const T value = x[c];
    sum += exp(static_cast<W>(widen(value)) - largest);
  }
  sum = reduce_block<Sum, W>(sum, 0);
  for (int64_t c = thread_index().x; c < columns; c += block_size().x) {
    const T value = x[c];
    y[c] = narrow<T>(exp(static_cast<W>(widen(value)) - largest) / sum);
  }
}

GW_KERNEL void row_sum_f32(Global<const float> in, Global<float> out, int64_t columns) {
  row_sum(in, out, columns);
}
GW_KERNEL void row_sum_f64(Global<const double> in, Global<double> out, int64_t columns) {
  row_sum(in, out, columns);
}
GW_KERNEL void row_sum_bf16(Global<const bf16> in, Global<bf16> out, int64_t columns) {
  row_sum(in, out, columns);
}
GW_KERNEL void softmax_rows_f32(Global<const float> in, Global<float> out, int64_t columns) {
  softmax_rows(in, out, columns);
}
GW_KERNEL void softmax_rows_f64(Global<const double> in, Global<double> out, int64_t columns) {
  softmax_rows(in, out, columns);
}
GW_KERNEL void softmax_rows_bf16(Global<const bf16> in, Global<bf16> out, int64_t columns) {
  softmax_rows(in, out, columns);
}

GW_KERNEL_TABLE(rows, GW_ENTRY(row_sum_f32), GW_ENTRY(row_sum_f64), GW_ENTRY(row_sum_bf16),
                GW_ENTRY(softmax_rows_f32), GW_ENTRY(softmax_rows_f64),
                GW_ENTRY(softmax_rows_bf16));

}  // namespace gangway::cuda
