// The index of a set of safetensors files: it names the file of each tensor.
//
//   {"metadata": {"total_size": 123}, "weight_map": {"name": "model-00001-of-00002.safetensors"}}
//
// Threads: values and pure functions; safe anywhere.
// Errors: kInvalid, naming the index. It is not trusted: it may name only files of its own folder.
// An index that could not be read back is not printed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace gangway {

struct TensorIndex {
  static constexpr uint64_t kBytesMax = 100'000'000;

  std::map<std::string, std::string> file_of;  // File names by tensor.
  // Empty: other tools leave it out, or round it to a float, and then there is nothing to compare.
  std::optional<uint64_t> total_bytes;

  bool operator==(const TensorIndex&) const = default;
};

TensorIndex parse_tensor_index(std::string_view text, const std::string& subject);
std::string print_tensor_index(const TensorIndex& index, const std::string& subject);

}  // namespace gangway
