// Device: the interface of all hardware, modelled on CUDA's semantics, so that its implementation
// for a GPU is a thin layer.
//
//   CUDA                      here
//   cudaMallocAsync / Free    memory()                 exact accounting, one named budget
//   module + graph            compile()                a local function, ready to be run many times
//   streams                   enqueue(Work, Lane)      non-blocking state machines, by ticket
//   cudaEvent_t               Event, Mark              with an error in it
//   cudaMallocHost            host_memory(), pin()
//   cudaMemcpyAsync           Work that calls copy()
//   ncclComm_t                Collective               executor/collectives/collective.h
//
// Invariants
//  - One work runs at a time, piece by piece: which one is for the queue to say (lanes.h). Works of
//    one lane follow one another, so each may read what the one before wrote.
//  - What a Work starts on a *discrete* device (a GPU) runs after the call has returned, in the
//    order in which it was started, in memory that the host can't touch. Code that must know that
//    it is done takes a mark() and waits until it is reached(). On all other devices it is done
//    when the call returns, device memory is host memory, and a mark costs nothing.
//  - On a discrete device a collective whose advance() said kDone may still run beside what is
//    started next, until join_collectives().
//  - Nothing that runs on the device's thread throws or blocks: errors are values (in a frame, an
//    event, a buffer).
//  - A device that waits costs nothing: it parks until ring(), or until the time its work asked to
//    be woken at.
//
// Threads: enqueue(), ring(), memory() and host memory anywhere; compile() anywhere; copy(), marks,
// now_ns() and everything that a Work does on the device's own thread (the reactor's, for a
// simulated device, and in serve_or_ring()).
// Ownership: the device outlives what was compiled for it and what was enqueued on it; its
// destructor drops what has not run.
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
#include "executor/store/memory.h"
#include "executor/transfers/device_link.h"
#include "executor/transfers/link_meter.h"
#include "executor/work/bell.h"
#include "executor/work/shared_counter.h"
#include "executor/work/work.h"
#include "ir/plan/plan.h"
#include "ir/types/limits.h"
#include "runtime/observe/trace.h"

namespace gangway {

// One call of a compiled function on one device: where its tensors lie and how far it has come.
// Built once for each run in flight and reused.
struct CallFrame {
  // Parameters, then results, then the arena. Behind them a function that runs bodies keeps those
  // of its bodies.
  std::vector<std::byte*> bases;
  // One for each entry of CompiledFunction::collective_needs().
  std::vector<Collective*> collectives;
  uint32_t mesh_device = 0;  // Which device of the slice's mesh this is.
  // The name of the program, for what a modelled device counts; null: none (an initialiser).
  const std::string* program = nullptr;
  // What a timeline calls the run and the plan's node.
  uint64_t run = 0, plan_node = 0;

  // The steps still to run: [step, end). Steps of bodies are counted out (ir/plan/step_map.h).
  SharedCounter step;
  uint32_t end = 0;
  // Where a function that runs bodies stands: before this step, at this command of its list, in
  // these loops, of which each goes on behind the command that has entered it.
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
  std::vector<CollectiveTensor> bucket;  // Of the collective that has begun; keeps its capacity.
  // Collectives that have begun, and run beside the steps behind them: by collective_needs(), and
  // how many there are in all.
  std::vector<CollectiveQueue> beside;
  uint32_t beside_count = 0;
  // Of a modelled device: when it has moved the bytes of those whose members have all come.
  int64_t links_free_ns = 0;
  // Where the frame waits for another step than its own, whose collective runs beside: the number
  // of that step, plus 1; else 0.
  SharedCounter awaited;

  // Kernels are skipped; collectives still take part, carrying the flag.
  bool poisoned = false;
  // A peer was poisoned: seen in a collective.
  bool peer_poisoned = false;
  // The step waits in a way that keeps the device from other work: it takes a given time, or it is
  // a collective of a device that such a one holds, which all its ranks there have begun.
  Hold holds = Hold::kNothing;
  // Record in `culprit` the first step whose float inputs were finite and whose outputs are not.
  bool check = false;
  uint32_t culprit = kNone;
  // Of a checked call on a discrete device: what the device tells of each value, and when.
  HostMemory told;
  uint64_t told_by = 0;
  // A launch failed: what follows is skipped, as if poisoned. The caller takes it from here.
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
  // become empty. None where that is not cut. A section may begin inside an iteration.
  virtual std::vector<uint32_t> section_steps() const { return {}; }
  // Whether one of the steps [begin, end) is a collective.
  virtual bool has_collective(uint32_t begin, uint32_t end) const {
    static_cast<void>(begin);
    static_cast<void>(end);
    return false;
  }
  // The axes of each distinct group of devices that its collectives join ("data", "data,expert"),
  // the most bytes that one of them moves, and which kinds there are, each with the user's line of
  // the first of them.
  struct CollectiveNeed {
    std::string axes;
    int64_t bytes_max = 0;
    CollectiveKinds kinds{};
    std::array<std::string, kCollectiveKinds> at{};  // By kind.
  };
  const std::vector<CollectiveNeed>& collective_needs() const { return needs_; }

  // What a step does, for people: of a run that is stuck in it. Any thread.
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
  // may go on beside the next ones, but not beyond commit_step() and step_count().
  virtual Progress advance(CallFrame& frame, Turn& turn) const = 0;
  // Waits for those that the frame counts (beside_count): before the device goes over to other
  // work, which could hold up what the members of a collective wait for. Device thread.
  virtual Progress join(CallFrame& frame, Turn& turn) const {
    return static_cast<void>(frame), static_cast<void>(turn), Progress::kDone;
  }

  // Once the steps before commit_step() have run: stores 1 in `flag`, which lies in host memory of
  // the device, if one of committed_values() (ir/plan/committed_values.h) holds an infinity or a
  // NaN. Device thread.
  virtual void check_committed(const CallFrame& frame, Device& device, uint32_t* flag) const {
    static_cast<void>(frame);
    static_cast<void>(device);
    static_cast<void>(flag);
  }

 protected:
  // The index of these axes among the needs. `bytes`: bytes_needed() of the call; `at`: the user's
  // line.
  uint32_t add_need(const std::string& axes, int64_t bytes, CollectiveKind kind,
                    const std::string& at);

 private:
  std::vector<CollectiveNeed> needs_;
};

// The devices of one collective, each once, by their lowest rank.
struct DeviceGroup {
  std::string name;              // Of all its devices, in order: equal on every host.
  std::vector<Device*> members;  // Null where another host has it.
  std::vector<LinkClass> links;  // From each to the next, and from the last to the first.
  int64_t bytes_max = 0;         // Of a collective.
  CollectiveKinds kinds{};       // That it is to do.
  // By device: how many of its ranks are members. Empty: one each.
  std::vector<uint32_t> ranks;
  uint32_t ranks_per_device = 1;
  std::vector<uint32_t> device_of{};  // By rank: which device runs it. Empty: one each.
};

// How a member of a collective meets the others in host memory.
struct Meetings {
  std::unique_ptr<Collective> all;
  // Of the lowest rank of each device, where devices have several and they are several devices;
  // null: it is another rank.
  std::unique_ptr<Collective> devices = nullptr;
};

// Why a device can't take part in a collective: what follows the kind's name, and what to do.
struct CollectiveRefusal {
  std::string why, hint;
};

// Of a run or a mark that failed because another device did; that one's own error says why.
const std::shared_ptr<const Error>& peer_failed();

// All that a device was told to start before; later marks are larger.
using Mark = uint64_t;

enum class HostAccess : uint8_t { kRead, kWrite };

class Device {
 public:
  Device(std::string name, int64_t memory_bytes)
      : name_(name), memory_(std::make_shared<DeviceMemory>(std::move(name), memory_bytes)) {}
  // Its memory comes from `blocks`: a discrete device, unless it says otherwise.
  Device(std::string name, int64_t memory_bytes, std::shared_ptr<MemoryBlocks> blocks,
         bool discrete = true)
      : name_(name),
        memory_(std::make_shared<DeviceMemory>(std::move(name), memory_bytes, std::move(blocks))),
        discrete_(discrete) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }
  DeviceMemory& memory() { return *memory_; }
  const DeviceMemory& memory() const { return *memory_; }

  // Throws kInvalid or kUnimplemented with the user's line.
  virtual std::shared_ptr<const CompiledFunction> compile(const LocalFunction& local) = 0;
  // Whether compile() may take longer than a reactor may be held up (large functions, libraries
  // that compile kernels).
  virtual bool compile_blocks() const { return false; }

  // Devices that return the same pointer can run what was compiled for any of them.
  virtual const void* family() const { return nullptr; }

  // A collective of a rank for tensors in this device's memory, whose members meet in host memory.
  virtual std::unique_ptr<Collective> collective(Meetings meetings, const DeviceGroup& group);
  // The staging_bytes() that such a collective will have.
  virtual int64_t collective_bytes(const DeviceGroup& group) const;
  // Why the device can't serve this group; none: it can.
  virtual std::optional<CollectiveRefusal> refuses(const DeviceGroup& group) const;

  // A way into the memory of `receiver`, a device of this process and kind, with `slots` places;
  // null: what is sent goes through host memory.
  virtual std::unique_ptr<DeviceLink> link_to(Device& receiver, uint32_t slots);

  // In a lane; or a task, which waits for no other.
  void enqueue(Work& work, Lane& lane) {
    push(work, &lane);
    ring();
  }
  void enqueue(Work& work) {
    push(work, nullptr);
    ring();
  }
  // The same, and the caller rings later.
  void enqueue_unrung(Work& work, Lane& lane) { push(work, &lane); }
  // Says that something that a pending work waits for may have happened.
  virtual void ring() = 0;
  // The same; but where all that there is to do takes at most `limit_ns` by the cost model, and the
  // device's thread is not at it, the caller does it here and now: that takes less time than to
  // wake the thread, and what ends is known at once. Returns what it took by the cost model; 0: the
  // device was rung. The reactor's thread.
  virtual int64_t serve_or_ring(int64_t limit_ns) {
    static_cast<void>(limit_ns);
    ring();
    return 0;
  }
  // Ends its thread, for good, and drops what has not run. Memory and what was compiled stay.
  virtual void stop() = 0;
  // The bell that other processes ring: the device parks on it from now on. Called before the first
  // enqueue().
  virtual void use_bell(Bell bell) = 0;

  // How many device threads of this machine work together: what its wait policy depends on.
  virtual void expect_peers(int device_threads) { static_cast<void>(device_threads); }

  virtual int64_t now_ns() const = 0;
  // What is started from now on runs after every collective whose advance() said kDone. A mark
  // orders the same.
  virtual void join_collectives() {}

  // Frees what the device keeps for compiled functions that are gone. Any thread.
  virtual void trim() {}

  // A modelled device: how long it takes to send so much; a real one takes the time that it takes.
  virtual int64_t send_ns(LinkClass link, int64_t bytes) const {
    return static_cast<void>(link), static_cast<void>(bytes), 0;
  }
  // False: a modelled device that computes no values, so none of them needs a place in the memory
  // that it shares with its peers.
  virtual bool has_values() const { return true; }

  // Of its work, and of what clients put and get.
  LinkMeter moved;

  // Where its work records spans, and where its collectives do, which run beside: both or none.
  internal::TraceBuffer* trace_row = nullptr;
  internal::TraceBuffer* collectives_row = nullptr;
  int64_t collective_recorded_ns = 0;  // Until when; a row's spans do not overlap.
  uint64_t trace_host = 0;             // trace_number() of its host's name.
  // Runs that were enqueued and have not ended; a timeline shows it.
  std::atomic<int64_t> runs_queued{0};

  // Between device memory and host memory that is its own or pinned.
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  // Stores 1 in `flag`, which lies in host memory, if a float tensor holds an infinity or a NaN.
  virtual void check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) = 0;

  bool discrete() const { return discrete_; }
  // Whether a collective that has begun keeps the device from others until all its members came.
  virtual bool collectives_hold() const { return discrete_; }
  // Then they begin by ticket. A test that shows what this prevents switches it off, before the
  // first enqueue().
  bool order_collectives = true;
  // The work that is advanced; null: none is. The queue sets it. What is started meanwhile, and
  // fails, is this work's failure: works take turns, and their marks come in between.
  const Work* at_work = nullptr;

  // A mark stands for everything that was started so far. Where reached() says kPending, the device
  // is rung when the mark may have been reached. Once it says kDone, `failure` is the error of what
  // the work that took it has started since its mark before, or the error that ended the device;
  // null: there was none.
  Mark mark() { return discrete_ ? make_mark() : 0; }
  Progress reached(Mark mark, std::shared_ptr<const Error>* failure) {
    return discrete_ ? look_for_mark(mark, failure) : Progress::kDone;
  }

  // Memory that the host and copy() both reach, not initialised; it may outlive the device.
  // Throws kOverloaded. Cost on a discrete device: about a millisecond.
  virtual HostMemory host_memory(int64_t bytes);
  // Lets copy() reach memory of the caller's, in whole pages, until the last copy of the result is
  // dropped.
  virtual std::shared_ptr<void> pin(void* data, int64_t bytes);
  // Says that the host is about to touch such memory, so nothing that was started may still touch
  // it. Only the emulated driver of the tests checks that.
  virtual void host_access(HostAccess kind, const void* data, int64_t bytes);

 protected:
  virtual void push(Work& work, Lane* lane) = 0;  // Does not ring.
  virtual Mark make_mark() { return 0; }
  virtual Progress look_for_mark(Mark, std::shared_ptr<const Error>*) { return Progress::kDone; }

 private:
  const std::string name_;
  const std::shared_ptr<DeviceMemory> memory_;  // Shared with its buffers.
  const bool discrete_ = false;
};

// Where the device is: what it does next begins now, or where a timed step ended just before.
inline int64_t device_time_ns(const Turn& turn) {
  return turn.timed_until_ns != 0 ? turn.timed_until_ns : turn.device.now_ns();
}

}  // namespace gangway
