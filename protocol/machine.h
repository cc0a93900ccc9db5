// Identifies the machine that a process is on, which decides whether two processes can share
// memory.
//
// Threads: any.
// Cost: reads two small files.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/os/process_identity.h"

namespace gangway {

struct Machine {
  std::string identity;  // Equal for processes that can share memory.
  std::string host;      // Its name, for people.
};

// Boot id and pid namespace of this process.
Machine this_machine();

// Identity of the peer's process of that number. Unknown, without a pid, if the peer is on another
// machine: its number may be that of another process here.
ProcessIdentity process_of(const Machine& peer, int64_t pid);

// Throws kUnimplemented when the two share no memory: there are no transfers between machines yet.
// `peer` names the other side: "executor \"host-3\"".
void require_same_machine(const Machine& mine, const Machine& theirs, const std::string& peer);

}  // namespace gangway
