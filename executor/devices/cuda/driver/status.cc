#include "executor/devices/cuda/driver/status.h"

namespace gangway::cuda {

const char* to_string(StatusKind kind) {
  switch (kind) {
    case StatusKind::kOk: return "ok";
    case StatusKind::kNotReady: return "not ready";
    case StatusKind::kInvalid: return "invalid call";
    case StatusKind::kOutOfMemory: return "out of memory";
    case StatusKind::kUnsupported: return "not supported";
    case StatusKind::kLaunch: return "launch failed";
    case StatusKind::kFault: return "device fault";
    case StatusKind::kAborted: return "communicator aborted";
    case StatusKind::kNoDriver: return "no driver";
  }
  return "unknown";
}

Error to_error(const Status& status) {
  const auto kind = [&] {
    switch (status.kind) {
      case StatusKind::kOutOfMemory: return ErrorKind::kOverloaded;
      case StatusKind::kUnsupported: return ErrorKind::kUnimplemented;
      case StatusKind::kFault:
      case StatusKind::kAborted:
      case StatusKind::kNoDriver: return ErrorKind::kUnavailable;
      case StatusKind::kOk:
      case StatusKind::kNotReady:
      case StatusKind::kInvalid:
      case StatusKind::kLaunch: break;
    }
    return ErrorKind::kBug;
  }();
  Error error(kind, cat("cuda: ", to_string(status.kind), ": ", status.text));
  if (status.sticky) error.set_hint("the device is lost to this process: start its executor again");
  return error;
}

}  // namespace gangway::cuda
