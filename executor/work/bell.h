// Bell: wakes a device, in this process or another, to look at its work again.
//
// Two forms: a doorbell in memory that the ringer shares with the device's thread, and, for
// simulated devices, which have no thread, a function in the same process.
//
// Threads: ring() anywhere the form allows.
// Ownership: a value; its holder keeps what it points to alive.
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
