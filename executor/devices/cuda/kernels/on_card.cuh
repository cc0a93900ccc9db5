// kernel_source.h for nvcc and NVRTC: aliases of what CUDA C++ has built in.
#pragma once

#ifdef __CUDACC_RTC__
using int8_t = signed char;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
#else
#include <cstdint>

#include "executor/devices/cuda/kernels/card_kernel.h"
#endif

#define GW_KERNEL extern "C" __global__
#define GW_DEVICE __device__ __forceinline__
#define GW_BLOCKS(threads, at_once) __launch_bounds__(threads, at_once)
#define GW_UNROLL _Pragma("unroll")
#define GW_SHARED(type, name, count) __shared__ type name[count]
#define GW_DYNAMIC_SHARED(type, name)                               \
  extern __shared__ __align__(16) unsigned char gw_dynamic_bytes[]; \
  type* const name = reinterpret_cast<type*>(gw_dynamic_bytes)
#define GW_KERNEL_TEMPLATE __global__
#ifdef __CUDACC_RTC__
#define GW_KERNEL_TABLE(name, ...)
#else
#define GW_ENTRY(kernel) {#kernel, reinterpret_cast<const void*>(&kernel)}
#define GW_INSTANCE(name, ...) {name, reinterpret_cast<const void*>(&__VA_ARGS__)}
#define GW_KERNEL_TABLE(name, ...)                                           \
  static const ::gangway::cuda::CardKernel name##_entries[] = {__VA_ARGS__}; \
  extern "C" const ::gangway::cuda::CardKernelTable gangway_kernels_##name;  \
  const ::gangway::cuda::CardKernelTable gangway_kernels_##name = {          \
      name##_entries, sizeof(name##_entries) / sizeof(::gangway::cuda::CardKernel)}
#endif

namespace gangway::cuda {

template <class T>
using Global = T*;
template <class T>
using Shared = T*;

GW_DEVICE uint3 thread_index() { return threadIdx; }
GW_DEVICE uint3 block_index() { return blockIdx; }
GW_DEVICE dim3 block_size() { return blockDim; }
GW_DEVICE dim3 grid_size() { return gridDim; }
GW_DEVICE void raise(volatile uint32_t* flag) { *flag = 1; }
GW_DEVICE void sync_block() { __syncthreads(); }
GW_DEVICE void sync_warp() { __syncwarp(); }
template <class T>
GW_DEVICE T shuffle_xor(T value, uint32_t mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <class V, class T>
GW_DEVICE V* as_vectors(T* data) {
  return reinterpret_cast<V*>(data);
}
GW_DEVICE float float_of_bits(uint32_t bits) { return __uint_as_float(bits); }
GW_DEVICE uint32_t bits_of_float(float x) { return __float_as_uint(x); }

}  // namespace gangway::cuda
