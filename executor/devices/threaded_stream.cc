#include "executor/devices/threaded_stream.h"

#include <utility>

#include "runtime/base/clock_ns.h"

namespace gangway {

void ThreadedStream::begin_thread(std::function<void()> serve) {
  thread_ = Thread(name(), [serve = std::move(serve)]() noexcept { serve(); });
}

bool ThreadedStream::end_thread() {
  if (stopping_.exchange(true, std::memory_order_release)) return false;
  ring();
  thread_.join();
  return true;
}

void ThreadedStream::use_bell(Bell bell) {
  bell_.store(bell.doorbell, std::memory_order_release);
  own_bell_.ring();  // The thread may still wait on it.
}

int64_t ThreadedStream::now_ns() const { return clock_ns(CLOCK_MONOTONIC); }

}  // namespace gangway
