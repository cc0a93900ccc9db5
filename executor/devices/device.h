// Device: the interface of all hardware, modelled on CUDA's semantics, so that its implementation
// for a GPU is a thin layer.
//
//   CUDA                      here
//   memory of either side     memory()                 executor/store/device_memory.h
//   module + graph            compile()                a local function, ready to be run many times
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
// Threads: enqueue(), ring(), memory() and compile() anywhere; copy(), marks, now_ns()
// and everything that a Work does on the device's own thread (the reactor's, for a simulated
// device, and in serve_or_ring()).
// Ownership: the device outlives functions that were compiled for it and works that were enqueued
// on it; its destructor drops works that have not run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/devices/collective_queue.h"
#include "executor/devices/lanes.h"
#include "executor/store/device_memory.h"
#include "executor/transfers/device_link.h"
#include "executor/transfers/link_meter.h"
#include "executor/work/bell.h"
#include "executor/work/shared_counter.h"
#include "executor/work/work.h"
#include "ir/plan/plan.h"
#include "ir/types/limits.h"
#include "runtime/observe/trace.h"

namespace gangway {

// One call of a compiled function on one device: the addresses of its tensors and its progress.
// Built once for each run in flight and reused.
struct CallFrame {
  // Parameters, then results, then the arena. A function that runs bodies keeps the bases of its
  // bodies behind them.
  std::vector<std::byte*> bases;
  // One for each entry of CompiledFunction::collective_needs().
  std::vector<Collective*> collectives;
  uint32_t mesh_device = 0;  // Index of this device in the slice's mesh.
  // Name of the program, for the counters of a modelled device; null: none (an initialiser).
  const std::string* program = nullptr;
  // Numbers of the run and of the plan's node in a timeline.
  uint64_t run = 0, plan_node = 0;

  // The steps still to run: [step, end). Steps of bodies are counted out (ir/plan/step_map.h).
  SharedCounter step;
  uint32_t end = 0;
  // Position of a function that runs bodies: before this step, at this command of its list, in
  // these loops. A loop continues behind the command that entered it.
  struct Loop {
    uint32_t command = 0;
    uint32_t iteration = 0;
  };
  struct Position {
    uint32_t step = kNone;
    uint32_t command = 0;
    uint32_t depth = 0;
    std::array<Loop, kBodyDepthMax> loops{};
  };
  Position at;
  bool begun = false;  // The step at `step` has begun and waits.
  int64_t resume_at_ns = 0;
  // Tensors of the collective that has begun; keeps its capacity.
  std::vector<CollectiveTensor> bucket;
  // Collectives that have begun and overlap with later steps, indexed by collective_needs(), and
  // the number of all of them.
  std::vector<CollectiveQueue> beside;
  uint32_t beside_count = 0;
  // On a modelled device: the time at which it has moved the bytes of all collectives that every
  // member has begun.
  int64_t links_free_ns = 0;
  // If the frame waits for another step than its own, whose collective overlaps: the number of that
  // step, plus 1; else 0.
  SharedCounter awaited;

  // Kernels are skipped; collectives still take part, carrying the flag.
  bool poisoned = false;
  // A peer was poisoned: seen in a collective.
  bool peer_poisoned = false;
  // The step waits in a way that keeps the device from other work: it takes a given time, or it is
  // a collective that all ranks on the device have begun, on a device whose collectives hold it.
  Hold holds = Hold::kNothing;
  // Record in `culprit` the first step whose float inputs were finite and whose outputs are not.
  bool check = false;
  uint32_t culprit = kNone;
  // A checked call on a discrete device: flags that the device writes for each value, and the mark
  // behind them.
  HostMemory told;
  uint64_t told_by = 0;
  // A launch failed: the rest is skipped, as if poisoned. The caller takes the error from here.
  std::shared_ptr<const Error> error;
};

class Device;

class CompiledFunction {
 public:
  virtual ~CompiledFunction() = default;

  // Bytes of the arena, scratchpads included; kDeviceAlignment aligned.
  virtual int64_t arena_bytes() const = 0;
  virtual uint32_t step_count() const = 0;
  // The first step that writes state.
  virtual uint32_t commit_step() const = 0;
  // The first step of each section of the function that it was compiled from; a section may have
  // become empty. No steps if the function has no sections. A section may begin inside an
  // iteration.
  virtual std::vector<uint32_t> section_steps() const { return {}; }
  // Whether one of the steps [begin, end) is a collective.
  virtual bool has_collective(uint32_t begin, uint32_t end) const {
    static_cast<void>(begin);
    static_cast<void>(end);
    return false;
  }
  // For each distinct group of devices that its collectives join: the axes ("data", "data,expert"),
  // the most bytes that one collective moves, and the kinds, each with the user's line of its first
  // collective.
  struct CollectiveNeed {
    std::string axes;
    int64_t bytes_max = 0;
    CollectiveKinds kinds{};
    std::array<std::string, kCollectiveKinds> at{};  // Indexed by kind.
  };
  const std::vector<CollectiveNeed>& collective_needs() const { return needs_; }

  // Description of a step for a report of a run that is stuck in it. Any thread.
  struct StepText {
    std::string what;  // "dot of f32[4, 8]"
    std::string at;    // The user's line.
    bool meets_peers = false;
  };
  virtual StepText describe_step(uint32_t step) const {
    static_cast<void>(step);
    return {};
  }

  // Runs steps until frame.end or until one must wait. Device thread. Collectives of these steps
  // may overlap with the next ones, but not beyond commit_step() and step_count().
  virtual Progress advance(CallFrame& frame, Turn& turn) const = 0;
  // Waits for the collectives that beside_count counts, before the device goes over to other work:
  // that work could hold up what the members of a collective wait for. Device thread.
  virtual Progress join(CallFrame& frame, Turn& turn) const {
    return static_cast<void>(frame), static_cast<void>(turn), Progress::kDone;
  }

  // Called once the steps before commit_step() have run. Stores 1 in `flag`, which lies in host
  // memory of the device, if one of committed_values() (ir/plan/committed_values.h) holds an
  // infinity or a NaN. Device thread.
  virtual void check_committed(const CallFrame& frame, Device& device, uint32_t* flag) const {
    static_cast<void>(frame);
    static_cast<void>(device);
    static_cast<void>(flag);
  }

 protected:
  // Returns the index of these axes among the needs. `bytes`: bytes_needed() of the call; `at`: the
  // user's line.
  uint32_t add_need(const std::string& axes, int64_t bytes, CollectiveKind kind,
                    const std::string& at);

 private:
  std::vector<CollectiveNeed> needs_;
};

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
  Device(std::string name, std::shared_ptr<DeviceMemory> memory, bool discrete = false)
      : name_(std::move(name)), memory_(std::move(memory)), discrete_(discrete) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }
  DeviceMemory& memory() { return *memory_; }
  const DeviceMemory& memory() const { return *memory_; }

  // Throws kInvalid or kUnimplemented with the user's line.
  virtual std::shared_ptr<const CompiledFunction> compile(const LocalFunction& local) = 0;
  // Whether compile() may take longer than the reactor may be blocked (large functions, libraries
  // that compile kernels).
  virtual bool compile_blocks() const { return false; }

  // Devices that return the same pointer can run functions compiled for any of them.
  virtual const void* family() const { return nullptr; }

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

  // Frees what the device keeps for compiled functions that are gone. Any thread.
  virtual void trim() {}

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
  const bool discrete_ = false;
};

// Current time of the device: now, or the end of the timed step that ended just before.
inline int64_t device_time_ns(const Turn& turn) {
  return turn.timed_until_ns != 0 ? turn.timed_until_ns : turn.device.now_ns();
}

}  // namespace gangway
