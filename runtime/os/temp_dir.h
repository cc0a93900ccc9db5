// TempDir: a fresh private directory (mode 0700) that is removed, with all in it, when the handle
// dies.
//
// It lies in temp_folder() (runtime/base/paths.h).
// Threads: any.
// Errors: kUnavailable when it can't be created; those of temp_folder().
#pragma once

#include <filesystem>
#include <string>

namespace gangway {

class TempDir {
 public:
  explicit TempDir(const std::string& prefix = "gangway");
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace gangway
