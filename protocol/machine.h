// Identifies the machine that a process is on, which decides whether two processes can share
// memory.
//
// Threads: any.
// Cost: reads two small files.
#pragma once

#include <string>

namespace gangway {

struct Machine {
  std::string identity;  // Equal for processes that can share memory.
  std::string host;      // Its name, for people.
};

// Boot id and pid namespace of this process.
Machine this_machine();

// Throws kUnimplemented when the two share no memory: there are no transfers between machines yet.
// `peer` names the other side: "executor \"host-3\"".
void require_same_machine(const Machine& mine, const Machine& theirs, const std::string& peer);

}  // namespace gangway
