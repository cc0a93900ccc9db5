// Elements of any type as doubles, for the emulated libraries.
#pragma once

#include <cstddef>
#include <cstring>

#include "executor/devices/cuda/kernels/kernel_source.h"
#include "ir/types/dtype.h"

namespace gangway::emulated {

template <class T>
T load_as(const std::byte* data, int64_t i) {
  T value;
  std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void store_as(std::byte* data, int64_t i, T value) {
  std::memcpy(data + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

inline double element(DType dtype, const std::byte* data, int64_t i) {
  switch (dtype) {
    case DType::kBool: return load_as<uint8_t>(data, i);
    case DType::kI32: return load_as<int32_t>(data, i);
    case DType::kBF16: return cuda::widen(load_as<cuda::bf16>(data, i));
    case DType::kF32: return load_as<float>(data, i);
    case DType::kF64: break;
  }
  return load_as<double>(data, i);
}

inline void set_element(DType dtype, std::byte* data, int64_t i, double value) {
  switch (dtype) {
    case DType::kBool: return store_as<uint8_t>(data, i, value != 0);
    case DType::kI32: return store_as(data, i, static_cast<int32_t>(value));
    case DType::kBF16:
      return store_as(data, i, cuda::narrow<cuda::bf16>(static_cast<float>(value)));
    case DType::kF32: return store_as(data, i, static_cast<float>(value));
    case DType::kF64: break;
  }
  store_as(data, i, value);
}

}  // namespace gangway::emulated
