// Softmax and cross-entropy of rows, and their gradients: a block for each row.
//
// The result may be in place of the operand: an element is read for the last time by the thread
// that writes it.
#include "executor/devices/cuda/kernels/block_reduce.h"
#include "executor/devices/cuda/kernels/row.h"
#include "executor/devices/cuda/kernels/tiled/async_copy.h"

namespace gangway::cuda {

// 2^x; a result below the least normal number becomes 0.
GW_DEVICE float power_of_two(float x) {
#ifdef __CUDACC__
  float made;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(made) : "f"(x));
  return made;
#else
  const float made = exp2f(x);
  return made < 0x1p-126f ? 0.0f : made;
#endif
}

// exp(x) for elements of T, where x is 0 at most but for roundings. A bf16's takes two
// instructions: it is off by 5e-7 of the result near 0 and by 6e-6 at -87, below which it is 0.
template <class T>
GW_DEVICE WideOf<T> exp_of(WideOf<T> x) {
  return exp(x);
}
template <>
GW_DEVICE float exp_of<bf16>(float x) {
  return power_of_two(x * 1.44269504f);
}

// The largest of `top` and a strip. NaN wins.
template <class W, class T, int kCount>
GW_DEVICE W largest_of(W top, const Strip<T, kCount>& strip) {
  GW_UNROLL for (int e = 0; e < kCount; ++e) top = Largest()(top, widen(strip.at[e]));
  return top;
}
template <int kPairs>
GW_DEVICE float largest_of(float top, const Strip<BfPair, kPairs>& strip) {
#ifdef __CUDACC__
  BfPair all = strip.at[0];  // Two at a time: an instruction where compares take six.
  GW_UNROLL for (int p = 1; p < kPairs; ++p) {
    asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(all.bits) : "r"(strip.at[p].bits));
  }
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(top) : "f"(part(all, 0)));
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(top) : "f"(part(all, 1)));
  return top;
#else
  return largest_of(top, widen_strip(strip));
#endif
}

template <class T>
struct RowTop {
  T largest, sum;  // sum: of exp(x - largest).
};

// In one pass: when a larger element comes, the sum so far is scaled down to it.
template <class T>
GW_DEVICE RowTop<WideOf<T>> row_top(Global<const T> x, int64_t columns) {
  using W = WideOf<T>;
  W largest = -infinity<W>(), sum = 0;
  each_strip<T>(columns, [&](int64_t first, auto width) {
    const auto loaded = load_as_is<width.kCount>(x, first);
    const W top = largest_of(largest, loaded);
    if (top == -infinity<W>()) return;  // They add nothing, and -inf - -inf is no number.
    const auto strip = widen_strip(loaded);
    sum *= exp_of<T>(largest - top);
    GW_UNROLL for (int e = 0; e < width.kCount; ++e) sum += exp_of<T>(strip.at[e] - top);
    largest = top;
  });
  const W top = reduce_block<Largest>(largest, -infinity<W>());
  if (largest != -infinity<W>()) sum *= exp_of<T>(largest - top);
  return {top, reduce_block<Sum>(sum, W(0))};
}

template <class T>
GW_KERNEL_TEMPLATE void softmax(Global<const T> in, Global<T> out, int64_t columns) {
  const int64_t first = static_cast<int64_t>(block_index().x) * columns;
  const Global<const T> x = in + first;
  const Global<T> y = out + first;
  const RowTop<WideOf<T>> top = row_top<T>(x, columns);
  map_row(x, y, columns,
          [&](int64_t, WideOf<T> value) { return exp_of<T>(value - top.largest) / top.sum; });
}

// dx = y * (dy - sum(y * dy))
template <class T>
GW_KERNEL_TEMPLATE void softmax_grad(Global<const T> result, Global<const T> grad, Global<T> out,
                                     int64_t columns) {
  using W = WideOf<T>;
  const int64_t first = static_cast<int64_t>(block_index().x) * columns;
  const Global<const T> y = result + first, dy = grad + first;
  const Global<T> dx = out + first;
  W sum = 0;
  each_strip<T>(columns, [&](int64_t at, auto width) {
    const auto a = load_strip<width.kCount>(y, at), b = load_strip<width.kCount>(dy, at);
    GW_UNROLL for (int e = 0; e < width.kCount; ++e) sum += a.at[e] * b.at[e];
  });
  sum = reduce_block<Sum>(sum, W(0));
  each_strip<T>(columns, [&](int64_t at, auto width) {
    auto made = load_strip<width.kCount>(y, at);
    const auto b = load_strip<width.kCount>(dy, at);
    GW_UNROLL for (int e = 0; e < width.kCount; ++e) made.at[e] *= b.at[e] - sum;
    store_strip<width.kCount>(dx, at, made);
  });
}

GW_DEVICE bool is_class(int32_t label, int64_t classes) { return label >= 0 && label < classes; }

// loss[row] = log_sum - (logits[row, label] - largest); a label out of range gives NaN. One thread
// calls it.
template <class T>
GW_DEVICE void write_loss(Global<const T> x, WideOf<T> largest, WideOf<T> log_sum, int32_t label,
                          int64_t classes, Global<WideOf<T>> to_loss,
                          Global<WideOf<T>> to_log_sum) {
  const int64_t row = block_index().x;
  to_log_sum[row] = log_sum;
  if (is_class(label, classes)) {
    to_loss[row] = log_sum - (wide_at(x, label) - largest);
  } else {
    to_loss[row] = not_a_number<WideOf<T>>();
  }
}

// dx = (softmax(x) - onehot(label)) * dloss of a row. The label's element is computed before dx may
// overwrite it, and written last, by the thread that has its strip.
template <class T>
GW_DEVICE void write_gradient(Global<const T> x, Global<T> dx, WideOf<T> largest, WideOf<T> log_sum,
                              WideOf<T> dloss, int32_t label, int64_t classes) {
  using W = WideOf<T>;
  constexpr int kCount = 16 / sizeof(T);
  const bool known = is_class(label, classes);
  const W by = known ? dloss : not_a_number<W>();
  const uint32_t turn = classes % kCount == 0 ? label / kCount : label;
  const bool has_label = known && turn % block_size().x == thread_index().x;
  const auto share = [&](W logit) { return exp_of<T>(logit - largest - log_sum); };
  W own = 0;
  if (has_label) own = (share(wide_at(x, label)) - 1) * by;
  map_row(x, dx, classes, [&](int64_t, W value) { return share(value) * by; });
  if (has_label) dx[label] = narrow<T>(own);
}

template <class T>
GW_DEVICE WideOf<T> row_largest(Global<const T> x, int64_t columns) {
  using W = WideOf<T>;
  W largest = -infinity<W>();
  each_strip<T>(columns, [&](int64_t first, auto width) {
    largest = largest_of(largest, load_as_is<width.kCount>(x, first));
  });
  return reduce_block<Largest>(largest, -infinity<W>());
}

template <class T>
GW_KERNEL_TEMPLATE void cross_entropy(Global<const T> logits, Global<const int32_t> labels,
                                      Global<WideOf<T>> loss, Global<WideOf<T>> log_sum,
                                      int64_t classes) {
  const int64_t row = block_index().x;
  const Global<const T> x = logits + row * classes;
  const RowTop<WideOf<T>> top = row_top<T>(x, classes);
  if (thread_index().x != 0) return;
  write_loss<T>(x, top.largest, log(top.sum), labels[row], classes, loss, log_sum);
}

// The forward pass does not keep the largest logit, so row_largest() finds it again. Threads write
// after the barriers in it.
template <class T>
GW_KERNEL_TEMPLATE void cross_entropy_grad(Global<const T> logits, Global<const int32_t> labels,
                                           Global<const WideOf<T>> log_sum,
                                           Global<const WideOf<T>> dloss, Global<T> dlogits,
                                           int64_t classes) {
  const int64_t row = block_index().x, first = row * classes;
  const Global<const T> x = logits + first;
  write_gradient<T>(x, dlogits + first, row_largest<T>(x, classes), log_sum[row], dloss[row],
                    labels[row], classes);
}

// Computes the results of both, with the same bits: threads take the same strips in the same order.
// A row is copied to shared memory, all of it at once. A thread reads the elements that it has
// copied itself; another thread may have copied the label's element, which is read behind the
// barriers of row_top().
template <class T>
GW_KERNEL_TEMPLATE void cross_entropy_and_grad(Global<const T> logits, Global<const int32_t> labels,
                                               Global<const WideOf<T>> dloss,
                                               Global<WideOf<T>> loss, Global<WideOf<T>> log_sum,
                                               Global<T> dlogits, int64_t strips) {
  using W = WideOf<T>;
  GW_DYNAMIC_SHARED(T, held);
  const int64_t classes = strips * (16 / sizeof(T)), row = block_index().x;
  const Global<const T> x = logits + row * classes;
  AsyncCopies copies;
  for (int64_t s = thread_index().x; s < strips; s += block_size().x)
    copies.add(as_vectors<Eight>(held) + s, as_vectors<const Eight>(x) + s);
  const int32_t label = labels[row];
  const W by = dloss[row];
  copies.wait();
  const RowTop<W> top = row_top<T>(held, classes);
  const W all = log(top.sum);
  if (thread_index().x == 0) write_loss<T>(held, top.largest, all, label, classes, loss, log_sum);
  write_gradient<T>(held, dlogits + row * classes, top.largest, all, by, label, classes);
}

GW_KERNEL_TABLE(softmax, GW_INSTANCE("softmax_f32", softmax<float>),
                GW_INSTANCE("softmax_f64", softmax<double>),
                GW_INSTANCE("softmax_bf16", softmax<bf16>),
                GW_INSTANCE("softmax_grad_f32", softmax_grad<float>),
                GW_INSTANCE("softmax_grad_f64", softmax_grad<double>),
                GW_INSTANCE("softmax_grad_bf16", softmax_grad<bf16>),
                GW_INSTANCE("cross_entropy_f32", cross_entropy<float>),
                GW_INSTANCE("cross_entropy_f64", cross_entropy<double>),
                GW_INSTANCE("cross_entropy_bf16", cross_entropy<bf16>),
                GW_INSTANCE("cross_entropy_grad_f32", cross_entropy_grad<float>),
                GW_INSTANCE("cross_entropy_grad_f64", cross_entropy_grad<double>),
                GW_INSTANCE("cross_entropy_grad_bf16", cross_entropy_grad<bf16>),
                GW_INSTANCE("cross_entropy_and_grad_f32", cross_entropy_and_grad<float>),
                GW_INSTANCE("cross_entropy_and_grad_f64", cross_entropy_and_grad<double>),
                GW_INSTANCE("cross_entropy_and_grad_bf16", cross_entropy_and_grad<bf16>));

}  // namespace gangway::cuda
