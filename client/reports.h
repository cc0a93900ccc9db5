// What a user's thread reports, until the reactor sends it: the newest report alone.
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
  // Whether nobody sends, so that the caller has to start somebody who does.
  bool say(Reported numbers) {
    const std::lock_guard lock(mutex_);
    newest_ = std::move(numbers);
    return !std::exchange(sending_, true);
  }
  // For who sends: what was said since the last time. None: it ends to send.
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
