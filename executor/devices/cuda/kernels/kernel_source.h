// The dialect of all kernel sources: one text compiles for a card (nvcc, NVRTC) and for the
// emulated driver of the tests (a host compiler).
//
//   here                            on a card             in the emulator
//   Global<T>, Shared<T>            T*                    checked: bounds, initialised, races
//   GW_SHARED(T, name, n)           __shared__ T name[n]  one array for each block
//   GW_DYNAMIC_SHARED(T, name)      extern __shared__     of the launch's shared_bytes
//   thread_index(), block_index(),  threadIdx, ...        the same numbers
//   block_size(), grid_size()
//   sync_block(), sync_warp()       __syncthreads, ...    barriers between fibers
//   shuffle_xor(v, mask)            __shfl_xor_sync       exchange between fibers; full warps only
//   raise(flag)                     *flag = 1             the same, by any number of threads
//   as_vectors<V>(x)                V*, aligned as V is   the same memory
//   GW_UNROLL                       #pragma unroll        nothing
//   GW_BLOCKS(threads, at_once)     __launch_bounds__     nothing
//
// An element of a Global or a Shared is read by naming its type (`float v = x[i]`, never `auto`)
// and written by assignment. Blocks are whole warps where they shuffle.
//
// Example:
//   GW_KERNEL void scale_f32(Global<const float> x, Global<float> y, float by, int64_t n) {
//     for (int64_t i = global_thread(); i < n; i += global_threads()) y[i] = x[i] * by;
//   }
//   GW_KERNEL_TABLE(scale, GW_ENTRY(scale_f32));
//
// Example (one text for several types; nvcc only):
//   template <class T>
//   GW_KERNEL_TEMPLATE void scale(Global<const T> x, Global<T> y, T by, int64_t n) { ... }
//   GW_KERNEL_TABLE(scale, GW_INSTANCE("scale_f32", scale<float>), ...);
#pragma once

#ifdef __CUDACC__
#include "executor/devices/cuda/kernels/on_card.cuh"
#else
#include "executor/devices/cuda/kernels/on_host.h"
#endif

namespace gangway::cuda {

constexpr uint32_t kWarpThreads = 32;

GW_DEVICE int64_t global_thread() {
  return static_cast<int64_t>(block_index().x) * block_size().x + thread_index().x;
}
GW_DEVICE int64_t global_threads() { return static_cast<int64_t>(grid_size().x) * block_size().x; }

// The upper half of a float; conversion rounds to nearest, ties to even. A NaN stays a NaN, with
// bits that depend on the machine.
struct bf16 {
  uint16_t bits;
};
GW_DEVICE float widen(float x) { return x; }
GW_DEVICE double widen(double x) { return x; }
GW_DEVICE int32_t widen(int32_t x) { return x; }
GW_DEVICE float widen(bf16 x) { return float_of_bits(static_cast<uint32_t>(x.bits) << 16); }

template <class To>
struct Narrow {
  template <class From>
  GW_DEVICE static To of(From x) {
    return static_cast<To>(x);
  }
};
template <>
struct Narrow<bf16> {
  GW_DEVICE static bf16 of(float x) {
#ifdef __CUDACC__
    bf16 made;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(made.bits) : "f"(x));
    return made;
#else
    const uint32_t bits = bits_of_float(x);
    if (x != x) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
    return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
#endif
  }
};
template <class To, class From>
GW_DEVICE To narrow(From x) {
  return Narrow<To>::of(x);
}

// The type in which a value of type T is computed.
template <class T>
struct Wide {
  using Type = T;
};
template <>
struct Wide<bf16> {
  using Type = float;
};
template <class T>
using WideOf = typename Wide<T>::Type;

// Elements that are read and written together, 16 bytes at a time.
template <class T, int kCount>
struct alignas(kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16) Strip {
  T at[kCount];
};

template <class T>
GW_DEVICE WideOf<T> wide_at(Global<const T> x, int64_t i) {
  const T value = x[i];
  return widen(value);
}

template <class T>
GW_DEVICE T infinity() {
  return static_cast<T>(float_of_bits(0x7f800000u));
}
template <class T>
GW_DEVICE T not_a_number() {
  return static_cast<T>(float_of_bits(0x7fc00000u));
}

}  // namespace gangway::cuda
