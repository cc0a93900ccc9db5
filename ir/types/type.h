// A tensor's type: element type and static shape, printed as `bf16[64, 512]`; a scalar is `f32[]`.
//
// Threads: a value; safe anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/types/dtype.h"

namespace gangway {

using Dims = std::vector<int64_t>;

// Bounds that every verifier and reader enforces, so that sizes never overflow.
inline constexpr int kRankMax = 8;
inline constexpr int64_t kElementsMax = int64_t{1} << 48;
// Bytes of all values of a local function, and of a plan on one device: more than any device has,
// yet sums of such sizes with their paddings, by ranks or by runs in flight, do not overflow.
inline constexpr int64_t kLocalBytesMax = int64_t{1} << 56;

struct Type {
  DType dtype = DType::kF32;
  Dims dims;

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t elements() const;
  int64_t bytes() const { return elements() * static_cast<int64_t>(size_of(dtype)); }
  Type with(DType other) const { return {other, dims}; }
  Type with(Dims other) const { return {dtype, std::move(other)}; }

  friend bool operator==(const Type&, const Type&) = default;
};

std::string to_string(const Type& type);
std::string to_string(const Dims& dims);  // "[64, 512]"

// True when the rank, every size and the product of the sizes that are not 0 keep the bounds above;
// strides keep them then, too.
bool is_valid(const Type& type);

// Short spellings for user code: f32({64, 512}).
inline Type boolean(Dims dims = {}) { return {DType::kBool, std::move(dims)}; }
inline Type i32(Dims dims = {}) { return {DType::kI32, std::move(dims)}; }
inline Type bf16(Dims dims = {}) { return {DType::kBF16, std::move(dims)}; }
inline Type f32(Dims dims = {}) { return {DType::kF32, std::move(dims)}; }
inline Type f64(Dims dims = {}) { return {DType::kF64, std::move(dims)}; }

}  // namespace gangway
