// DeviceStream: the work of one device: the queue of works, and the operations that a work starts.
//
//   CUDA                     here
//   streams                  enqueue(Work, RankStream) non-blocking state machines, by ticket
//   cudaEvent_t              Event, Mark               with an error in it
//   cudaMemcpyAsync          a Work that calls copy()
//   ncclComm_t               Collective                executor/collectives/collective.h
//
// Invariants
//  - One work runs at a time, piece by piece; the queue chooses which (device_schedule.h). Works of
//    one rank's stream follow one another, so each may read what the one before wrote.
//  - Operations that a Work starts on a *discrete* device (a GPU) run after the call has returned,
//    in the order in which they were started, in memory that the host can't touch. Code that must
//    know that they are done takes a mark() and waits until it is reached(). On all other devices
//    they are done when the call returns, device memory is host memory, and a mark costs nothing.
//  - On a discrete device a collective whose advance() returned kDone may still overlap with
//    operations that are started next, until join_collectives().
//  - Code on the device's thread neither throws nor blocks: errors are values (in a frame, an
//    event, a buffer).
//  - A device that waits costs nothing: it parks until ring(), or until the time its work asked to
//    be woken at.
//
// The interface has 22 members.
// Units: ns of the device's clock, bytes.
// Threads: the queue's functions anywhere, except serve_or_ring(), which is the reactor's; the
// operations, at_work and the trace on the device's own thread (the reactor's, for a simulated
// device, and in serve_or_ring()). None of them suspends.
// Ownership: the device's. It outlives works that were enqueued on it; its destructor drops works
// that have not run. Works: see work/work.h.
// Errors: reached() gives the error of what was started before.
// Cost: a virtual call an operation. Code that enqueues often keeps the reference.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "executor/devices/device_schedule.h"
#include "executor/store/row_copies.h"
#include "executor/transfers/link_meter.h"
#include "executor/work/bell.h"
#include "executor/work/work.h"
#include "ir/types/dtype.h"
#include "runtime/base/error.h"
#include "runtime/observe/trace.h"

namespace gangway {

// Stands for everything that was started on a device before; later marks are larger.
using Mark = uint64_t;

// Error of a run or a mark that failed because another device did; that device's own error has the
// cause.
const std::shared_ptr<const Error>& peer_failed();

// The records of a stream for a timeline.
struct StreamTrace {
  // Rows in which its work and its overlapping collectives record spans: both are set, or none.
  internal::TraceBuffer* row = nullptr;
  internal::TraceBuffer* collectives_row = nullptr;
  int64_t collective_recorded_ns = 0;  // End of the last span; a row's spans do not overlap.
  uint64_t host = 0;                   // trace_number() of its host's name.
  // Runs that were enqueued and have not ended. Any thread.
  std::atomic<int64_t> runs_queued{0};
};

class DeviceStream {
 public:
  explicit DeviceStream(std::string device, bool discrete = false)
      : name_(std::move(device)), discrete_(discrete) {}
  virtual ~DeviceStream() = default;
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  const std::string& name() const { return name_; }  // The device's.
  bool discrete() const { return discrete_; }

  // The queue. Enqueues a work in a rank's stream, or a task, which waits for no other.
  void enqueue(Work& work, RankStream& rank_stream) {
    push(work, &rank_stream);
    ring();
  }
  void enqueue(Work& work) {
    push(work, nullptr);
    ring();
  }
  // The same, but the caller rings later.
  void enqueue_unrung(Work& work, RankStream& rank_stream) { push(work, &rank_stream); }
  // Says that something that a pending work waits for may have happened.
  virtual void ring() = 0;
  // The same; but if all that there is to do takes at most `limit_ns` by the cost model, and the
  // device's thread is not running, the caller does it here and now. That takes less time than
  // waking the thread, and ends are known at once. Returns the time by the cost model; 0: the
  // device was rung. Reactor's thread.
  virtual int64_t serve_or_ring(int64_t limit_ns) {
    static_cast<void>(limit_ns);
    ring();
    return 0;
  }
  // Ends its thread for good and drops works that have not run. Memory and compiled functions stay.
  virtual void stop() = 0;
  // The bell that other processes ring: the device parks on it from now on. Called before the first
  // enqueue().
  virtual void use_bell(Bell bell) = 0;
  // Number of device threads of this machine that work together; the wait policy depends on it.
  virtual void expect_peers(int device_threads) { static_cast<void>(device_threads); }

  // Operations. Copies between device memory and host memory that the device's memory gave or
  // pinned (DeviceMemory).
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  // The same for rows, on a discrete device in one operation.
  virtual void copy_rows(const RowCopies& rows) {
    rows.for_each([&](std::byte* to, const std::byte* from) { copy(to, from, rows.bytes); });
  }
  // Stores 1 in `flag`, which lies in host memory, if a float tensor holds an infinity or a NaN.
  virtual void check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) = 0;
  // A mark stands for everything that was started so far. If reached() returns kPending, the device
  // is rung when the mark may have been reached. Once it returns kDone, `failure` is the error of
  // an operation that the work that took the mark has started since its mark before, or the error
  // that ended the device; null if there was none.
  Mark mark() { return discrete_ ? make_mark() : 0; }
  Progress reached(Mark mark, std::shared_ptr<const Error>* failure) {
    return discrete_ ? look_for_mark(mark, failure) : Progress::kDone;
  }
  // Work that is started from now on runs after every collective whose advance() returned kDone. A
  // mark orders the same.
  virtual void join_collectives() {}

  // Time.
  virtual int64_t now_ns() const = 0;
  // On a modelled device: how long it takes to send `bytes` bytes. On a real one: 0.
  virtual int64_t send_ns(LinkClass link, int64_t bytes) const {
    return static_cast<void>(link), static_cast<void>(bytes), 0;
  }

  // Order. Whether a collective that has begun keeps the device from other works until all members
  // have begun it. Such collectives begin by ticket.
  virtual bool collectives_block() const { return discrete_; }

  LinkMeter moved;  // Counts bytes moved by its work and by puts and gets of clients.
  StreamTrace trace;
  // The work that is being advanced, set by the queue; null: none. An operation that is started
  // meanwhile, and fails, is this work's failure, since works take turns and their marks mix.
  const Work* at_work = nullptr;

 protected:
  virtual void push(Work& work, RankStream* rank_stream) = 0;  // Does not ring.
  virtual Mark make_mark() { return 0; }
  virtual Progress look_for_mark(Mark, std::shared_ptr<const Error>*) { return Progress::kDone; }

 private:
  const std::string name_;
  const bool discrete_;
};

// Current time of the device: now, or the end of the timed step that ended just before.
inline int64_t device_time_ns(const Turn& turn) {
  return turn.timed_until_ns != 0 ? turn.timed_until_ns : turn.stream.now_ns();
}

}  // namespace gangway
