// The command that goes on with a training that was stopped: to be pasted into a shell.
//
// Threads: any.
#pragma once

#include <string>
#include <vector>

namespace gangway::tool {

struct ResumeOptions {
  bool resume = true;  // Says --resume, which the command line lacks, and no more --replace.
  std::string out;     // Not empty: says --out with it, which the command line lacks.
};

// `command_line` as it was typed, quoted as a shell needs it. A script that ends by running
// `gangway train NAME ARGUMENTS...` for its user says its own name in GANGWAY_STARTED_AS, which
// then stands for the first three words.
std::string resume_command(const std::vector<std::string>& command_line,
                           const ResumeOptions& options);

}  // namespace gangway::tool
