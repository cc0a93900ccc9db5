// RefusalLog: lines about connections and requests that were refused. A stranger can cause any
// number of them, so only kLinesAtOnce come at once and one a second after that. The next line says
// how many did not.
//
// Threads: the reactor's thread.
// Ownership: the clock outlives this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/fibers/clock.h"
#include "runtime/observe/log.h"

namespace gangway {

class RefusalLog {
 public:
  static constexpr int64_t kLinesAtOnce = 64;

  RefusalLog(const Clock& clock, Logger log) : clock_(clock), log_(std::move(log)) {}

  // `from`: the peer's address.
  void warn(std::string_view message, const std::string& from, const std::string& why) {
    constexpr int64_t kOneNs = 1'000'000'000;
    // The time at which the lines so far are paid for, at one a second.
    paid_ns_ = std::max(paid_ns_, clock_.now_ns() - kLinesAtOnce * kOneNs);
    if (paid_ns_ + kOneNs > clock_.now_ns()) {
      ++unlogged_;
      return;
    }
    paid_ns_ += kOneNs;
    const uint64_t unlogged = std::exchange(unlogged_, 0);
    if (unlogged == 0) return log_.warn(message, {{"from", from}, {"why", why}});
    log_.warn(message, {{"from", from}, {"why", why}, {"not_logged", unlogged}});
  }

 private:
  const Clock& clock_;
  const Logger log_;
  int64_t paid_ns_ = INT64_MIN;
  uint64_t unlogged_ = 0;
};

}  // namespace gangway
