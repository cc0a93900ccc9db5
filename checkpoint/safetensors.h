// The header of a safetensors file: which tensors the file holds, with type, shape and place.
//
// The layout is the one that PyTorch and Hugging Face tools read and write:
//
//   u64 little-endian N | N bytes of JSON, padded with spaces | data
//   {"__metadata__": {"key": "text"},
//    "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
//
// Invariants of a header that was parsed: names are unique; end - begin is the size of the shape;
// in file order the tensors cover the data section with no hole and no overlap, and end with it.
//
// Threads: values and pure functions; safe anywhere.
// Errors: kInvalid, naming the file and the tensor. Nothing in the bytes is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/types/dtype.h"

namespace gangway {

// Every type of the format; tensors of a type that Gangway lacks are raw bytes.
enum class FileDType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64
};

size_t size_of(FileDType dtype);
std::string_view to_string(FileDType dtype);  // "BOOL", "BF16", "F32", ...
FileDType to_file_dtype(DType dtype);
std::optional<DType> to_dtype(FileDType dtype);

struct TensorSpec {
  std::string name;
  FileDType dtype = FileDType::kF32;
  std::vector<int64_t> shape;

  bool operator==(const TensorSpec&) const = default;
};

// Returns the bytes of a tensor; empty for a negative extent or a size that overflows.
std::optional<uint64_t> byte_size(const TensorSpec& spec);

struct TensorEntry {
  TensorSpec spec;
  uint64_t begin = 0;  // Place in the data section, in bytes.
  uint64_t end = 0;

  bool operator==(const TensorEntry&) const = default;
};

struct SafetensorsHeader {
  static constexpr uint64_t kBytesMax = 100'000'000;  // Other readers have the same limit.
  static constexpr size_t kRankMax = 64;

  std::vector<TensorEntry> tensors;  // In file order.
  std::map<std::string, std::string> metadata;

  uint64_t data_bytes() const { return tensors.empty() ? 0 : tensors.back().end; }
  bool operator==(const SafetensorsHeader&) const = default;
};

// Returns a header for these tensors. Wide element types come first, so that each tensor is
// aligned.
SafetensorsHeader lay_out(const std::vector<TensorSpec>& specs,
                          const std::map<std::string, std::string>& metadata,
                          const std::string& file);

// Returns the length and the JSON; a multiple of 8 bytes.
std::string print_header(const SafetensorsHeader& header, const std::string& file);

inline constexpr uint64_t kLengthBytes = 8;

// Returns where the data begins in a file of `file_bytes` bytes. `first` holds the first bytes of
// the file: at least kLengthBytes, if it has that many. `file` names the file in error texts.
uint64_t find_data(std::span<const std::byte> first, uint64_t file_bytes, const std::string& file);

// `head` holds at least all bytes before the data.
SafetensorsHeader parse_header(std::span<const std::byte> head, uint64_t file_bytes,
                               const std::string& file);

}  // namespace gangway
