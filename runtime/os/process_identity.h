// ProcessIdentity: a process of this machine, told apart from a later one of the same number.
//
// For who must know whether a process that it has lost sight of has ended or will come back.
//
// Threads: any.
// Errors: none: what the system does not say counts as a process that lives.
// Cost: some system calls, 10-20 us.
#pragma once

#include <cstdint>

namespace gangway {

struct ProcessIdentity {
  int64_t pid = 0;       // 0: nobody knows.
  uint64_t started = 0;  // In the clock ticks of the system since it booted.
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// Of a process that runs now.
ProcessIdentity identity_of(int64_t pid);
// Whether all its threads have ended, reaped or not.
bool has_ended(const ProcessIdentity& process);

}  // namespace gangway
