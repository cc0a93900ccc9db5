// Runs a reader that is not ours, a Python script of this folder or Graphviz, on texts that Gangway
// wrote.
//
// Threads: any that lives longer than the call, as ChildProcess requires.
#pragma once

#include <string>
#include <vector>

#include "runtime/os/temp_dir.h"

namespace gangway {

struct Read {
  bool ok = false;   // The reader exited with 0.
  std::string said;  // Standard output and error.
};

Read run_reader(std::vector<std::string> arguments);
// Runs a script of this folder.
Read run_python(const std::string& script, const std::vector<std::string>& arguments);

// Writes the text to a new file in `folder`, and returns the file's path.
std::string file_with(const TempDir& folder, const std::string& name, const std::string& text);

}  // namespace gangway
