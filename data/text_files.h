// TextFiles: the files of a text, read one behind the other. They are a regular file, or all
// regular files below a folder, sorted by path.
//
// Threads: one at a time.
// Errors: kInvalid, naming the path, if it is missing, empty, too long, or neither a file nor a
// folder, and for a file that can't be read or has become shorter since it was found.
// Cost: reading waits for the disk, or for the network behind it.
//
// Example:
//   TextFiles files("books/");
//   std::string bytes(files.bytes(), '\0');
//   files.read({bytes.data(), bytes.size()});
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

namespace gangway {

class TextFiles {
 public:
  static constexpr uint64_t kBytesMax = uint64_t{16} << 30;

  explicit TextFiles(const std::filesystem::path& path);

  uint64_t bytes() const { return bytes_; }  // Size when the files were found.
  // Reads the next bytes, as many as `to` has room for.
  void read(std::span<char> to);
  void rewind();  // To the beginning.

 private:
  struct File {
    std::filesystem::path path;
    uint64_t bytes = 0;
  };
  void add(const std::filesystem::path& path);

  std::vector<File> files_;
  uint64_t bytes_ = 0;
  size_t next_ = 0;     // Index into files_.
  uint64_t taken_ = 0;  // Bytes read of that file.
  std::ifstream in_;
};

}  // namespace gangway
