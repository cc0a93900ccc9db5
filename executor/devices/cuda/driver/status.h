// Status: the result of a call of the driver's table: success, not ready, or an error as a value.
//
// Like cudaError_t with its text. It is a value because most calls happen on device threads, where
// nothing throws. A *sticky* error has ended the device for this process: every later call
// answers with the same one, and only a new process can use the device again.
//
// Threads: a value.
// Cost: nothing is allocated unless there is an error.
//
// Example:
//   if (Status done = driver.query(event); done.failed()) poison(to_error(done));
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/error.h"

namespace gangway::cuda {

enum class StatusKind : uint8_t {
  kOk,
  kNotReady,     // Result of a query: ask again later. Not an error.
  kInvalid,      // A bad argument, or a call where it may not stand (a wait inside a capture).
  kOutOfMemory,  // The budget or the card has no room; nothing has changed.
  kUnsupported,  // The card or a library can't.
  kLaunch,       // This operation did not start; the device goes on.
  kFault,        // An operation broke while it ran (an illegal address, a trap). Sticky.
  kAborted,      // The communicator was aborted, here or by a peer.
  kNoDriver,     // No driver, or one too old.
};

const char* to_string(StatusKind kind);

struct [[nodiscard]] Status {
  StatusKind kind = StatusKind::kOk;
  bool sticky = false;
  std::string text;  // For an error: the label of the operation, and the message of the driver.

  bool ok() const { return kind == StatusKind::kOk; }
  bool failed() const { return !ok() && kind != StatusKind::kNotReady; }
};

// Out of memory is kOverloaded, an aborted communicator and a lost device kUnavailable, what the
// card cannot do kUnimplemented, all else kBug: the table's callers checked their arguments.
Error to_error(const Status& status);

}  // namespace gangway::cuda
