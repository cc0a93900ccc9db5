// Reads one safetensors file. The header is verified when the file is opened; tensors are read on
// request.
//
// A disk that fails, or a file that is cut short meanwhile, gives an error that names the file. For
// this reason tensors are read and not mapped: a fault in mapped memory would end the process.
//
// Threads: reading is safe from any thread.
// Errors: kInvalid, naming file and tensor, see safetensors.h; also if the disk can't read the
// file's bytes, so that the caller may use another copy. Other errors as durable_file.h.
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
  // Null if no tensor has the name.
  const TensorEntry* find(std::string_view name) const;
  // Fills `to` with bytes of the tensor, from its byte `offset` on.
  void read(const TensorEntry& tensor, uint64_t offset, std::span<std::byte> to) const;
  // Fills `to` with bytes of the file (length, header and data), from its byte `offset` on.
  void read_at(uint64_t offset, std::span<std::byte> to) const;
  uint64_t data_begin() const { return data_begin_; }  // Place in the file.

 private:
  void read_header();

  const std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
  std::map<std::string_view, const TensorEntry*> by_name_;
};

}  // namespace gangway
