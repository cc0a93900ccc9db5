// Runs a reader that is not ours, a Python script of this folder or Graphviz, on texts that Gangway
// wrote.
//
// Threads: one that lives longer than the call, as ChildProcess asks.
#pragma once

#include <string>
#include <vector>

#include "runtime/os/temp_dir.h"

namespace gangway {

struct Read {
  bool ok = false;   // Whether it exited with 0.
  std::string said;  // Standard output and error.
};

Read run_reader(std::vector<std::string> arguments);
// A script of this folder.
Read run_python(const std::string& script, const std::vector<std::string>& arguments);

// A file of its own in `folder`; its path.
std::string file_with(const TempDir& folder, const std::string& name, const std::string& text);

}  // namespace gangway
