#include "ir/types/literal.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/cat.h"
#include "runtime/base/error.h"

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

double load(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kBool: return load<uint8_t>(at) != 0;
    case DType::kI32: return load<int32_t>(at);
    case DType::kBF16: return from_bf16(load<uint16_t>(at));
    case DType::kF32: return load<float>(at);
    case DType::kF64: return load<double>(at);
  }
  return 0;
}

template <class T>
void store(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof(T));
}

void store(DType dtype, double value, std::byte* at) {
  switch (dtype) {
    case DType::kBool: return store<uint8_t>(value != 0, at);
    case DType::kI32: return store(static_cast<int32_t>(to_i32(value)), at);
    case DType::kBF16: return store(to_bf16(value), at);
    case DType::kF32: return store(static_cast<float>(value), at);
    case DType::kF64: return store(value, at);
  }
}

}  // namespace

Literal filled(Type type, double value) {
  std::vector<double> values(static_cast<size_t>(type.elements()), rounded(type.dtype, value));
  return {std::move(type), std::move(values)};
}

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

void round_values(Literal& literal) {
  for (double& value : literal.values) value = rounded(literal.type.dtype, value);
}

Literal from_bytes(Type type, std::span<const std::byte> bytes) {
  GW_REQUIRE(static_cast<int64_t>(bytes.size()) == type.bytes(),
             "literal: wrong number of bytes: ", to_string(type), " takes ", type.bytes(), ", got ",
             bytes.size());
  Literal literal{std::move(type), {}};
  size_t size = size_of(literal.type.dtype);
  for (size_t at = 0; at < bytes.size(); at += size)
    literal.values.push_back(load(literal.type.dtype, bytes.data() + at));
  return literal;
}

std::vector<std::byte> to_bytes(const Literal& literal) {
  size_t size = size_of(literal.type.dtype);
  std::vector<std::byte> bytes(literal.values.size() * size);
  for (size_t i = 0; i < literal.values.size(); ++i)
    store(literal.type.dtype, literal.values[i], bytes.data() + i * size);
  return bytes;
}

namespace {

// A tensor seen as [outer, size of dim, inner].
struct Split {
  int64_t outer = 1, inner = 1;
  Split(const Type& type, int dim) {
    for (int d = 0; d < type.rank(); ++d) {
      if (d != dim) (d < dim ? outer : inner) *= type.dims[static_cast<size_t>(d)];
    }
  }
};

}  // namespace

Literal part_of(const Literal& whole, int dim, int64_t parts, int64_t index) {
  Literal part{whole.type, {}};
  int64_t& size = part.type.dims[static_cast<size_t>(dim)];
  GW_REQUIRE(size % parts == 0, "part_of: dim ", dim, " cannot be cut in ", parts, ": got ",
             to_string(whole.type));
  Split split(whole.type, dim);
  int64_t run = size / parts * split.inner;
  size /= parts;
  for (int64_t o = 0; o < split.outer; ++o) {
    auto from = whole.values.begin() + (o * parts + index) * run;
    part.values.insert(part.values.end(), from, from + run);
  }
  return part;
}

Literal join(const std::vector<Literal>& parts, int dim) {
  Literal whole{parts.at(0).type, {}};
  auto d = static_cast<size_t>(dim);
  whole.type.dims[d] = 0;
  for (const Literal& part : parts) whole.type.dims[d] += part.type.dims[d];
  Split split(whole.type, dim);
  for (int64_t o = 0; o < split.outer; ++o) {
    for (const Literal& part : parts) {
      int64_t run = part.type.dims[d] * split.inner;
      auto from = part.values.begin() + o * run;
      whole.values.insert(whole.values.end(), from, from + run);
    }
  }
  return whole;
}

}  // namespace gangway
