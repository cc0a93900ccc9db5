// TrustedFiles: folders whose libraries a process may load, and whose files it may read for others.
// They are named by the user who starts the process.
//
// Libraries are identified by content. A program asks for a hash, never for a path. The process
// loads only a file that lay in a trusted folder when the process was started, with the bytes that
// it had then. A user who may only send programs therefore can't bring in code, whatever files they
// can write elsewhere. Users who can write to a trusted folder are trusted.
//
// Threads: immutable; safe from any thread.
// Errors: the constructor throws kInvalid for a folder that can't be read or holds too much.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gangway {

class TrustedFiles {
 public:
  static constexpr size_t kLibrariesMax = 4096;
  static constexpr size_t kLibraryBytesMax = size_t{1} << 30;

  // Reads all files below whose name ends in ".so".
  explicit TrustedFiles(const std::vector<std::filesystem::path>& folders);

  // Bytes of the library with this content_hash(). Empty if there was no such file, or if it has
  // changed.
  std::optional<std::string> library(const std::string& hash) const;
  // Whether the file or folder lies below a trusted folder once all links are followed.
  bool holds(const std::filesystem::path& path) const;
  // "/opt/kernels, /data", or "none".
  std::string folders_text() const;

 private:
  void add_libraries(const std::filesystem::path& folder);

  std::vector<std::filesystem::path> folders_;  // Without links.
  std::map<std::string, std::filesystem::path> libraries_;
};

}  // namespace gangway
