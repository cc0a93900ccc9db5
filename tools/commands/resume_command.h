// The command that resumes a training that was stopped, ready to be pasted into a shell.
//
// Threads: any.
#pragma once

#include <string>
#include <vector>

namespace gangway::tool {

struct ResumeOptions {
  bool resume = true;  // Adds --resume, and removes --replace.
  std::string out;     // Adds --out with this folder, unless empty.
};

// Returns `command_line`, as the user gave it, quoted as a shell needs it. A script that ends by
// running `gangway train NAME ARGUMENTS...` for its user puts its own name into GANGWAY_STARTED_AS,
// which then replaces the first three words.
std::string resume_command(const std::vector<std::string>& command_line,
                           const ResumeOptions& options);

}  // namespace gangway::tool
