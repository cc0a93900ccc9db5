#include "executor/devices/threaded_stream.h"

#include <time.h>

#include <utility>

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

int64_t ThreadedStream::now_ns() const {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace gangway
