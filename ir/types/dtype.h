// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gangway {

// The wire form stores these numbers: append only.
enum class DType : uint8_t {
  kBool = 0,  // one byte, 0 or 1
  kI32 = 1,
  kBF16 = 2,
  kF32 = 3,
  kF64 = 4,
};
inline constexpr int kDTypeCount = 5;

constexpr size_t size_of(DType dtype) {
  constexpr size_t kBytes[kDTypeCount] = {1, 4, 2, 4, 8};
  return kBytes[static_cast<int>(dtype)];
}

constexpr bool is_float(DType dtype) { return dtype >= DType::kBF16; }

// "bool", "i32", "bf16", "f32", "f64".
constexpr std::string_view to_string(DType dtype) {
  constexpr std::string_view kNames[kDTypeCount] = {"bool", "i32", "bf16", "f32", "f64"};
  return kNames[static_cast<int>(dtype)];
}

constexpr std::optional<DType> parse_dtype(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (to_string(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace gangway
