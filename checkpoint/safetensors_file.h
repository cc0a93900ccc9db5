// Reads one safetensors file: its header is verified when it is opened, and tensors are read when
// they are asked for.
//
// A disk that fails, or a file that is cut short meanwhile, is an error that names the file: so
// tensors are read and not mapped, where it would be the end of the process.
//
// Threads: reading is safe from any thread.
// Errors: kInvalid, naming file and tensor; see safetensors.h. Also where the disk can't read what
// the file holds: whoever has another copy takes that. Else as durable_file.h.
//
// Example:
//   SafetensorsFile file("model.safetensors");
//   for (const TensorEntry& t : file.header().tensors)
//     std::cout << t.spec.name << ": " << t.end - t.begin << " bytes\n";
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>

#include "checkpoint/safetensors.h"

namespace gangway {

class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::filesystem::path path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  // Null if there is none of that name.
  const TensorEntry* find(std::string_view name) const;
  // As many bytes of a tensor as there is room for, from `offset` of it on.
  void read(const TensorEntry& tensor, uint64_t offset, std::span<std::byte> to) const;
  // The same of the file: length, header and data.
  void read_at(uint64_t offset, std::span<std::byte> to) const;
  uint64_t data_begin() const { return data_begin_; }  // Of the file.

 private:
  void read_header();

  const std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
  std::map<std::string_view, const TensorEntry*> by_name_;
};

}  // namespace gangway
