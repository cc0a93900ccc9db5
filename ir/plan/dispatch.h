// Dispatch: when the hosts of a program do their work for its nodes (binding arguments, filling
// batches, writing down addresses).
//
//   parallel    for all nodes of a run at once, before its data exists: that work is off the path
//               from one node to the next. The default.
//   sequential  for a node once those that it depends on have ended and their host has reported it
//               to the controller, as when a node's needs are known only then. A chain of nodes on
//               different hosts waits for each host's work and for messages there and back. For
//               measuring what parallel dispatch saves, and for looking at one node at a time.
//
// Threads: a value.
// Errors: dispatch_of() throws kInvalid, naming `who`.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/error.h"

namespace gangway {

enum class Dispatch : uint8_t { kParallel, kSequential };

inline const char* to_string(Dispatch dispatch) {
  switch (dispatch) {
    case Dispatch::kParallel: return "parallel";
    case Dispatch::kSequential: return "sequential";
  }
  return "?";
}

// From its name.
inline Dispatch dispatch_of(const std::string& who, const std::string& name) {
  for (const Dispatch dispatch : {Dispatch::kParallel, Dispatch::kSequential}) {
    if (name == to_string(dispatch)) return dispatch;
  }
  throw Error(ErrorKind::kInvalid,
              cat(who, ": expected \"parallel\" or \"sequential\", got \"", name, "\""));
}

}  // namespace gangway
