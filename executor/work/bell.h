// Bell: tells a device that waits to look again at its work, from its own process or from another.
//
// Two forms: a doorbell in memory that the ringer shares with the device's thread, and, for
// simulated devices, which have no thread, a function in the same process.
//
// Threads: ring() anywhere the form allows.
// Ownership: a value; whoever holds one keeps what it points to alive.
#pragma once

#include <functional>
#include <memory>

#include "runtime/os/doorbell.h"

namespace gangway {

struct Bell {
  Doorbell* doorbell = nullptr;
  std::shared_ptr<const std::function<void()>> function;

  void ring() const {
    if (doorbell != nullptr) {
      doorbell->ring();
    } else if (function != nullptr) {
      (*function)();
    }
  }
};

}  // namespace gangway
