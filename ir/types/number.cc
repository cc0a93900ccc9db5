#include "ir/types/number.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/cat.h"

namespace gangway {
namespace {

static_assert(std::endian::native == std::endian::little);

uint16_t to_bf16(double value) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  bits += 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>(bits >> 16);
}

double from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

double to_i32(double value) {
  if (std::isnan(value)) return 0;
  constexpr double kLow = std::numeric_limits<int32_t>::min();
  constexpr double kHigh = std::numeric_limits<int32_t>::max();
  return std::trunc(std::fmin(std::fmax(value, kLow), kHigh));
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class T>
void store(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof(T));
}

}  // namespace

double rounded(DType dtype, double value) {
  switch (dtype) {
    case DType::kBool: return value != 0;
    case DType::kI32: return to_i32(value);
    case DType::kBF16: return from_bf16(to_bf16(value));
    case DType::kF32: return static_cast<float>(value);
    case DType::kF64: return value;
  }
  return value;
}

void store_number(DType dtype, double value, std::byte* to) {
  switch (dtype) {
    case DType::kBool: return store<uint8_t>(value != 0, to);
    case DType::kI32: return store(static_cast<int32_t>(to_i32(value)), to);
    case DType::kBF16: return store(to_bf16(value), to);
    case DType::kF32: return store(static_cast<float>(value), to);
    case DType::kF64: return store(value, to);
  }
}

double load_number(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::kBool: return load<uint8_t>(from) != 0;
    case DType::kI32: return load<int32_t>(from);
    case DType::kBF16: return from_bf16(load<uint16_t>(from));
    case DType::kF32: return load<float>(from);
    case DType::kF64: return load<double>(from);
  }
  return 0;
}

std::optional<std::string> number_mistake(DType dtype, double value) {
  const bool is_whole = std::abs(value) < 1e15 && std::trunc(value) == value;
  const std::string shown = is_whole ? cat(static_cast<int64_t>(value)) : cat(value);
  const std::string refused = cat("can't be ", shown, " in ", to_string(dtype), ": expected ");
  switch (dtype) {
    case DType::kBool:
      if (value == 0 || value == 1) return std::nullopt;
      return refused + "0 or 1";
    case DType::kI32:
      if (rounded(dtype, value) == value) return std::nullopt;
      return refused + "a whole number from -2147483648 to 2147483647";
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64: break;
  }
  const double nearest = rounded(dtype, value);
  if (std::isfinite(value) && !std::isfinite(nearest))
    return refused + "a number that is finite there, or infinity itself";
  if (value != 0 && nearest == 0)
    return cat("can't be ", shown, ": that is too small for ", to_string(dtype),
               ": it would become 0");
  return std::nullopt;
}

}  // namespace gangway
