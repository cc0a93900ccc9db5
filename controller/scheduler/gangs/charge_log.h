// ChargeLog: sums of the charges for programs' turns, and of the device time that these took.
//
// Tests hand a log to the controller (ControllerOptions::charge_log): once no run is left, the two
// sums are equal for each program.
//
// Threads: the reactor's thread.
#pragma once

#include <cstdint>
#include <map>

#include "runtime/base/ids.h"

namespace gangway {

class ChargeLog {
 public:
  struct Sums {
    int64_t charged_ns = 0;  // Charges that the policy got.
    int64_t took_ns = 0;     // Time that devices reported; the charge where none did.
  };

  void charged(SessionId program, int64_t ns) { sums_[program].charged_ns += ns; }
  void took(SessionId program, int64_t ns) { sums_[program].took_ns += ns; }
  const std::map<SessionId, Sums>& sums() const { return sums_; }

 private:
  std::map<SessionId, Sums> sums_;
};

}  // namespace gangway
