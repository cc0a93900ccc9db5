// ProcessIdentity: identifies a process of this machine, distinct from a later process with the
// same number.
//
// It lets code that lost its connection to a process find out whether the process has ended or may
// come back.
//
// Threads: any.
// Errors: none. The system of this machine may not know; a process of another machine has no
// identity here, and nobody may ask about its number (protocol/machine.h).
// Cost: some system calls, 10-20 us.
#pragma once

#include <cstdint>

namespace gangway {

struct ProcessIdentity {
  int64_t pid = 0;       // 0: not known, or of another machine.
  uint64_t started = 0;  // In the clock ticks of the system since it booted.
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// Identity of a process that runs now.
ProcessIdentity identity_of(int64_t pid);
// Whether all threads of the process have ended, reaped or not. A caller takes a process of which
// that is unknown for one that may go on: it waits for the end of a lease or a connection.
enum class HasEnded : uint8_t { kNo, kYes, kUnknown };
HasEnded has_ended(const ProcessIdentity& process);

}  // namespace gangway
