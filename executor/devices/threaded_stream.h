// ThreadedStream: the common part of streams on a thread of their own: the queue, the bell on which
// the thread parks, and the machine's clock.
//
// Threads: see device_stream.h. Ownership: a derived class begins the thread once all else is
// constructed, and ends it in stop(), which its destructor calls.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "executor/devices/device_stream.h"
#include "runtime/os/doorbell.h"
#include "runtime/os/thread.h"

namespace gangway {

class ThreadedStream : public DeviceStream {
 public:
  void ring() override { bell_.load(std::memory_order_acquire)->ring(); }
  void use_bell(Bell bell) override;
  int64_t now_ns() const override;

 protected:
  using DeviceStream::DeviceStream;

  // An exception ends the whole process, which the controller notices; it would not notice a
  // missing thread.
  void begin_thread(std::function<void()> serve);
  // False: it has been ended before.
  bool end_thread();
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }
  Doorbell& bell() const { return *bell_.load(std::memory_order_acquire); }
  void push(Work& work, RankStream* rank_stream) final { queue_.push(work, rank_stream); }

  DeviceSchedule queue_;

 private:
  Doorbell own_bell_;
  std::atomic<Doorbell*> bell_{&own_bell_};
  std::atomic<bool> stopping_{false};
  Thread thread_;
};

}  // namespace gangway
