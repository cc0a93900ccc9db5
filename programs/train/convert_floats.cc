#include "programs/train/convert_floats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace gangway::programs {
namespace {

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

double from_half(uint16_t bits) {
  constexpr int kFractionBits = 10, kExponentMax = 31;
  const int exponent = bits >> kFractionBits & kExponentMax;
  const int fraction = bits & ((1 << kFractionBits) - 1);
  double value = 0;
  if (exponent == kExponentMax) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp((1 << kFractionBits) + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

double read_float(FileDType dtype, const std::byte* at) {
  if (dtype == FileDType::kF64) return read<double>(at);
  if (dtype == FileDType::kF32) return read<float>(at);
  const auto half = read<uint16_t>(at);
  if (dtype == FileDType::kF16) return from_half(half);
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

// Rounds first to a float, with its last bit set if that is not exact, so that nothing is rounded
// twice.
uint16_t to_bf16(double value) {
  const auto near = static_cast<float>(value);
  auto bits = std::bit_cast<uint32_t>(near);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  if (std::isfinite(near) && static_cast<double>(near) != value) {
    if (std::fabs(static_cast<double>(near)) > std::fabs(value)) --bits;
    bits |= 1;
  }
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void write_float(DType dtype, double value, std::byte* at) {
  if (dtype == DType::kF64) {
    std::memcpy(at, &value, sizeof(value));
  } else if (dtype == DType::kF32) {
    const auto narrow = static_cast<float>(value);
    std::memcpy(at, &narrow, sizeof(narrow));
  } else {
    const uint16_t narrow = to_bf16(value);
    std::memcpy(at, &narrow, sizeof(narrow));
  }
}

}  // namespace

bool is_convertible_float(FileDType dtype) {
  return dtype == FileDType::kF16 || dtype == FileDType::kBF16 || dtype == FileDType::kF32 ||
         dtype == FileDType::kF64;
}

void convert_floats(FileDType from, std::span<const std::byte> bytes, DType to,
                    std::span<std::byte> values) {
  if (to_dtype(from) == to) {
    std::ranges::copy(bytes, values.begin());
    return;
  }
  const size_t count = bytes.size() / size_of(from);
  for (size_t i = 0; i < count; ++i)
    write_float(to, read_float(from, bytes.data() + i * size_of(from)),
                values.data() + i * size_of(to));
}

}  // namespace gangway::programs
