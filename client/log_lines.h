// Lines that a user's threads log, until the reactor sends them: the newest ones, as many at a time
// as one call takes.
//
// Threads: any; under its own lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/program_log.h"
#include "runtime/base/cut.h"

namespace gangway::internal {

class LogLines {
 public:
  struct Call {
    uint64_t first = 0;  // Number of lines logged before these, dropped ones too.
    std::vector<std::string> lines;
  };

  // Adds lines. Returns whether nobody sends, so that the caller has to start a sender.
  bool say(std::string_view text) {
    const std::lock_guard lock(mutex_);
    for (size_t from = 0; from <= text.size();) {
      const size_t end = std::min(text.find('\n', from), text.size());
      // An end of line at the end of the text begins no other.
      if (end < text.size() || from < end || from == 0)
        waiting_.push_back(cut(text.substr(from, end - from), kBytesMax));
      from = end + 1;
    }
    while (waiting_.size() > kLogLinesMax) drop_first();
    return !std::exchange(sending_, true);
  }
  // The next lines, for the sender. None: it stops sending.
  std::optional<Call> take() {
    const std::lock_guard lock(mutex_);
    sending_ = !waiting_.empty();
    return next();
  }
  // The next lines, for the sender of what is left at the end.
  std::optional<Call> take_rest() {
    const std::lock_guard lock(mutex_);
    return next();
  }

 private:
  static constexpr size_t kBytesMax = kLogLineBytesMax - 64;  // Leaves room for the note of a cut.

  void drop_first() {
    waiting_.pop_front();
    ++gone_;
  }
  std::optional<Call> next() {
    if (waiting_.empty()) return std::nullopt;
    Call call{.first = gone_, .lines = {}};
    while (!waiting_.empty() && call.lines.size() < kLogLinesOfCallMax) {
      call.lines.push_back(std::move(waiting_.front()));
      drop_first();
    }
    return call;
  }

  std::mutex mutex_;
  std::deque<std::string> waiting_;
  uint64_t gone_ = 0;  // Sent, or dropped.
  bool sending_ = false;
};

}  // namespace gangway::internal
