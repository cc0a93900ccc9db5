// AnonymousFile: a file without a name that another process can open by path, and that is gone with
// the last process that holds it, however that one ends.
//
// It holds text that a child writes and its parent reads: a log, a trace.
// Threads: any.
// Ownership: the path works while the handle lives.
// Errors: kOverloaded when there is no descriptor left for one.
//
// Example:
//   AnonymousFile log("controller");
//   ChildProcess child({.arguments = {"gangway", "controller"}, .output_file = log.path()});
//   std::string said = log.text();
#pragma once

#include <string>

namespace gangway {

class AnonymousFile {
 public:
  explicit AnonymousFile(const std::string& name);
  AnonymousFile(AnonymousFile&& other) noexcept;
  AnonymousFile& operator=(AnonymousFile&& other) noexcept;
  ~AnonymousFile();

  // A path that any process of this user and machine can open.
  std::string path() const;
  // Everything written so far.
  std::string text() const;

 private:
  int fd_ = -1;
};

}  // namespace gangway
