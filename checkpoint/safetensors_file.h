// Reads one safetensors file: mapped into memory, verified whole when opened, tensors without a
// copy.
//
// Threads: reading is safe from any thread.
// Ownership: views live as long as the file object; the file must not be cut shorter meanwhile (a
// checkpoint is never changed after its rename).
// Errors: kInvalid, naming file and tensor; see safetensors.h.
//
// Example:
//   SafetensorsFile file("model.safetensors");
//   for (const TensorEntry& t : file.header().tensors)
//     std::cout << t.spec.name << ": " << file.bytes(t).size() << " bytes\n";
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>

#include "checkpoint/safetensors.h"

namespace gangway {

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const SafetensorsHeader& header() const { return parsed_.header; }
  // Null if there is none of that name.
  const TensorEntry* find(std::string_view name) const;
  std::span<const std::byte> bytes(const TensorEntry& tensor) const {
    return parsed_.data.subspan(tensor.begin, tensor.end - tensor.begin);
  }

 private:
  std::span<const std::byte> mapped_;
  ParsedSafetensors parsed_;
  std::map<std::string_view, const TensorEntry*> by_name_;
};

}  // namespace gangway
