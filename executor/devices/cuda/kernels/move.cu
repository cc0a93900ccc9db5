// Data that moves without arithmetic: strided copies, fills, counting.
#include "executor/devices/cuda/kernels/kernel_source.h"
#include "executor/devices/cuda/kernels/strided_view.h"

namespace gangway::cuda {

// With `start` the window moves by clamp(start[0], 0, last) steps.
template <class T>
GW_DEVICE void move(Global<const T> from, Global<T> to, StridedView view,
                    Global<const int32_t> start, MovingWindow window) {
  int64_t n = 1, source_begin = window.source_begin, target_begin = 0;
  for (int32_t d = 0; d < view.rank; ++d) n *= view.sizes[d];
  if (window.moves != 0) {
    const int32_t wanted = start[0];
    const int64_t at = wanted < 0 ? 0 : wanted > window.last ? window.last : wanted;
    source_begin += at * window.source_step;
    target_begin = at * window.target_step;
  }
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    int64_t rest = i, source = source_begin, target = target_begin;
    for (int32_t d = view.rank - 1; d >= 0; --d) {
      const int64_t index = rest % view.sizes[d];
      rest /= view.sizes[d];
      source += index * view.source[d];
      target += index * view.target[d];
    }
    const T value = from[source];
    to[target] = value;
  }
}

template <class T>
GW_DEVICE void fill_bits(Global<T> out, uint64_t bits, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) out[i] = static_cast<T>(bits);
}

// out[outer, size, inner] = index along the middle.
template <class T>
GW_DEVICE void iota(Global<T> out, int64_t n, int64_t size, int64_t inner) {
  for (int64_t i = global_thread(); i < n; i += global_threads())
    out[i] = narrow<T>(static_cast<WideOf<T>>(i / inner % size));
}

#define GW_OF_SIZE(bytes, type)                                                           \
  GW_KERNEL void move_##bytes(Global<const type> from, Global<type> to, StridedView view, \
                              Global<const int32_t> start, MovingWindow window) {         \
    move(from, to, view, start, window);                                                  \
  }                                                                                       \
  GW_KERNEL void fill_##bytes(Global<type> out, uint64_t bits, int64_t n) {               \
    fill_bits(out, bits, n);                                                              \
  }
GW_OF_SIZE(1, uint8_t)
GW_OF_SIZE(2, uint16_t)
GW_OF_SIZE(4, uint32_t)
GW_OF_SIZE(8, uint64_t)
#undef GW_OF_SIZE

using Sixteen = Strip<uint64_t, 2>;
GW_KERNEL void move_16(Global<const Sixteen> from, Global<Sixteen> to, StridedView view,
                       Global<const int32_t> start, MovingWindow window) {
  move(from, to, view, start, window);
}

#define GW_OF_TYPE(name, type)                                                           \
  GW_KERNEL void iota_##name(Global<type> out, int64_t n, int64_t size, int64_t inner) { \
    iota(out, n, size, inner);                                                           \
  }
GW_OF_TYPE(i32, int32_t)
GW_OF_TYPE(bf16, bf16)
GW_OF_TYPE(f32, float)
GW_OF_TYPE(f64, double)
#undef GW_OF_TYPE

GW_KERNEL_TABLE(move, GW_ENTRY(move_1), GW_ENTRY(move_2), GW_ENTRY(move_4), GW_ENTRY(move_8),
                GW_ENTRY(move_16), GW_ENTRY(fill_1), GW_ENTRY(fill_2), GW_ENTRY(fill_4),
                GW_ENTRY(fill_8), GW_ENTRY(iota_i32), GW_ENTRY(iota_bf16), GW_ENTRY(iota_f32),
                GW_ENTRY(iota_f64));

}  // namespace gangway::cuda
