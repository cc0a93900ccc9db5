// Numbers that a user's thread reports, until the reactor sends them: the newest report alone.
//
// Threads: any; under its own lock.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "protocol/reported.h"

namespace gangway::internal {

class Reports {
 public:
  // Keeps a report. Returns whether nobody sends, so that the caller has to start a sender.
  bool say(Reported numbers) {
    const std::lock_guard lock(mutex_);
    newest_ = std::move(numbers);
    return !std::exchange(sending_, true);
  }
  // The report since the last time, for the sender. None: it stops sending.
  std::optional<Reported> take() {
    const std::lock_guard lock(mutex_);
    sending_ = newest_.has_value();
    return std::exchange(newest_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<Reported> newest_;
  bool sending_ = false;
};

}  // namespace gangway::internal
