// TrustedFiles: folders whose libraries a process may load, and whose files it may read for others,
// because whoever started it said so.
//
// Libraries go by content. What is asked for is a hash, never a path: what is loaded is a file that
// lay in a trusted folder when the process was started, with the bytes that it had then. So nobody
// who may only send programs can bring code in, whatever files they can write elsewhere; who can
// write to a trusted folder is trusted.
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

  // The bytes of the library of this content_hash(); none: there was no such file, or it
  // has changed.
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
