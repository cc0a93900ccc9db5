// LockFile: a file that one process at a time holds locked, and that names the process.
//
// The lock ends with the process, however it ends, and is not handed on to the programs that the
// process starts. The file stays afterwards: only its lock shows that a process holds it.
//
// Threads: any; one object belongs to one thread at a time. Two objects of one process exclude one
// another as two processes do.
// Errors: those of durable_file.h, for a file that can't be created or locked. A lock that another
// process holds is not an error: see is_held().
//
// Example:
//   const LockFile lock("out/.lock");
//   if (!lock.is_held()) std::cout << "wait for " << lock.holder() << "\n";
#pragma once

#include <filesystem>
#include <string>

namespace gangway {

class LockFile {
 public:
  explicit LockFile(const std::filesystem::path& path);
  ~LockFile();
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&&) = delete;

  bool is_held() const { return descriptor_ >= 0; }
  // Names the process that holds the lock: "process 4711 on node-3 (gangway train quickstart)".
  const std::string& holder() const { return holder_; }

 private:
  int descriptor_ = -1;
  std::string holder_;
};

}  // namespace gangway
