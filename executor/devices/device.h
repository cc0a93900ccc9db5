// Device: the interface of all hardware, modelled on CUDA's semantics, so that its implementation
// for a GPU is a thin layer.
//
//   CUDA                      here
//   memory of either side     memory()                 executor/store/device_memory.h
//   module + graph            compiler()               executor/devices/device_compiler.h
//   streams                   enqueue(Work, Lane)      non-blocking state machines, by ticket
//   cudaEvent_t               Event, Mark              with an error in it
//   cudaMemcpyAsync           Work that calls copy()
//   ncclComm_t                Collective               executor/collectives/collective.h
//
// Invariants
//  - One work runs at a time, piece by piece; the queue chooses which (lanes.h). Works of one lane
//    follow one another, so each may read what the one before wrote.
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
// Threads: enqueue(), ring(), memory() and compiler() anywhere; copy(), marks, now_ns() and everything that a Work does on the device's own thread (the reactor's, for a simulated
// device, and in serve_or_ring()).
// Ownership: the device outlives functions that were compiled for it and works that were enqueued
// on it; its destructor drops works that have not run.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/devices/compiled_function.h"
#include "executor/devices/device_compiler.h"
#include "executor/devices/lanes.h"
#include "executor/store/device_memory.h"
#include "executor/transfers/device_link.h"
#include "executor/transfers/link_meter.h"
#include "executor/work/bell.h"
#include "executor/work/work.h"
#include "runtime/observe/trace.h"

namespace gangway {

// The devices of one collective, each once, in the order of their lowest ranks.
struct DeviceGroup {
  std::string name;              // Made of all its devices, in order: equal on every host.
  std::vector<Device*> members;  // Null if the device is another host's.
  std::vector<LinkClass> links;  // Link of each device to the next, and of the last to the first.
  int64_t bytes_max = 0;         // Limit for a collective.
  CollectiveKinds kinds{};       // Kinds that the group must do.
  // Number of each device's ranks that are members. Empty: one each.
  std::vector<uint32_t> ranks;
  uint32_t ranks_per_device = 1;
  std::vector<uint32_t> device_of{};  // Device that runs each rank. Empty: one rank each.
};

// The collectives in which a member meets the others in host memory.
struct Meetings {
  std::unique_ptr<Collective> all;
  // The group of the lowest ranks of each device, if a device has several ranks and there are
  // several devices; null for other ranks.
  std::unique_ptr<Collective> devices = nullptr;
};

// Why a device can't take part in a collective: the text behind the kind's name, and a hint.
struct CollectiveRefusal {
  std::string why, hint;
};

// Error of a run or a mark that failed because another device did; that device's own error has the
// cause.
const std::shared_ptr<const Error>& peer_failed();

// Stands for everything that was started on a device before; later marks are larger.
using Mark = uint64_t;

class Device {
 public:
  Device(std::string name, std::shared_ptr<DeviceMemory> memory, DeviceCompiler& compiler,
         bool discrete = false)
      : name_(std::move(name)),
        memory_(std::move(memory)),
        compiler_(compiler),
        discrete_(discrete) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }
  DeviceMemory& memory() { return *memory_; }
  const DeviceMemory& memory() const { return *memory_; }
  DeviceCompiler& compiler() const { return compiler_; }

  // A collective of a rank for tensors in this device's memory, whose members meet in host memory.
  virtual std::unique_ptr<Collective> collective(Meetings meetings, const DeviceGroup& group);
  // The staging_bytes() that such a collective will have.
  virtual int64_t collective_bytes(const DeviceGroup& group) const;
  // Why the device can't serve this group; empty if it can.
  virtual std::optional<CollectiveRefusal> refuses(const DeviceGroup& group) const;

  // A link into the memory of `receiver`, a device of this process and kind, with `slots` slots;
  // null: transfers go through host memory.
  virtual std::unique_ptr<DeviceLink> link_to(Device& receiver, uint32_t slots);

  // Enqueues a work in a lane, or a task, which waits for no other.
  void enqueue(Work& work, Lane& lane) {
    push(work, &lane);
    ring();
  }
  void enqueue(Work& work) {
    push(work, nullptr);
    ring();
  }
  // The same, but the caller rings later.
  void enqueue_unrung(Work& work, Lane& lane) { push(work, &lane); }
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

  virtual int64_t now_ns() const = 0;
  // Work that is started from now on runs after every collective whose advance() returned kDone. A
  // mark orders the same.
  virtual void join_collectives() {}

  // On a modelled device: how long it takes to send `bytes` bytes. On a real one: 0.
  virtual int64_t send_ns(LinkClass link, int64_t bytes) const {
    return static_cast<void>(link), static_cast<void>(bytes), 0;
  }

  // Counts bytes moved by its work and by puts and gets of clients.
  LinkMeter moved;

  // Rows in which its work and its overlapping collectives record spans: both are set, or none.
  internal::TraceBuffer* trace_row = nullptr;
  internal::TraceBuffer* collectives_row = nullptr;
  int64_t collective_recorded_ns = 0;  // End of the last span; a row's spans do not overlap.
  uint64_t trace_host = 0;             // trace_number() of its host's name.
  // Runs that were enqueued and have not ended, for a timeline.
  std::atomic<int64_t> runs_queued{0};

  // Copies between device memory and host memory that is its own or pinned.
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  // Stores 1 in `flag`, which lies in host memory, if a float tensor holds an infinity or a NaN.
  virtual void check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) = 0;

  bool discrete() const { return discrete_; }
  // Whether a collective that has begun keeps the device from other works until all members have
  // begun it. Such collectives begin by ticket.
  virtual bool collectives_hold() const { return discrete_; }
  // The work that is being advanced, set by the queue; null: none. An operation that is started
  // meanwhile, and fails, is this work's failure, since works take turns and their marks mix.
  const Work* at_work = nullptr;

  // A mark stands for everything that was started so far. If reached() returns kPending, the device
  // is rung when the mark may have been reached. Once it returns kDone, `failure` is the error of
  // an operation that the work that took the mark has started since its mark before, or the error
  // that ended the device; null if there was none.
  Mark mark() { return discrete_ ? make_mark() : 0; }
  Progress reached(Mark mark, std::shared_ptr<const Error>* failure) {
    return discrete_ ? look_for_mark(mark, failure) : Progress::kDone;
  }

 protected:
  virtual void push(Work& work, Lane* lane) = 0;  // Does not ring.
  virtual Mark make_mark() { return 0; }
  virtual Progress look_for_mark(Mark, std::shared_ptr<const Error>*) { return Progress::kDone; }

 private:
  const std::string name_;
  const std::shared_ptr<DeviceMemory> memory_;  // Shared with its buffers.
  DeviceCompiler& compiler_;
  const bool discrete_ = false;
};

// Current time of the device: now, or the end of the timed step that ended just before.
inline int64_t device_time_ns(const Turn& turn) {
  return turn.timed_until_ns != 0 ? turn.timed_until_ns : turn.device.now_ns();
}

}  // namespace gangway
