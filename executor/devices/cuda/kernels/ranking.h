// The order of values in top-k and sort: numbers by size, NaN above all, -0 equal to +0,
// and the lower index first among equals.
#pragma once

#include "executor/devices/cuda/kernels/block_reduce.h"

namespace gangway::cuda {

template <class T>
GW_DEVICE bool larger(T a, T b) {
  return a > b || (a != a && b == b);
}

template <class T>
struct Ranked {
  T value;
  int32_t index;  // -1: none.
};
template <class T>
GW_DEVICE Ranked<T> shuffle_xor(Ranked<T> ranked, uint32_t mask) {
  return {shuffle_xor(ranked.value, mask), shuffle_xor(ranked.index, mask)};
}

// Whether `a` comes before `b` in falling order.
template <class T>
GW_DEVICE bool before(Ranked<T> a, Ranked<T> b) {
  if (a.index < 0 || b.index < 0) return a.index >= 0 && b.index < 0;
  return larger(a.value, b.value) || (!larger(b.value, a.value) && a.index < b.index);
}

struct First {
  template <class T>
  GW_DEVICE Ranked<T> operator()(Ranked<T> a, Ranked<T> b) const {
    return before(b, a) ? b : a;
  }
};

}  // namespace gangway::cuda
