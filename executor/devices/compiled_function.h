// CompiledFunction: a local function in a device's own form, ready to be run many times.
// CallFrame: one call of it.
//
// Threads: a function is immutable; advance(), join() and check_committed() run on the device's
// thread, where nothing throws or blocks, all else anywhere. A frame is the device thread's once
// its run is enqueued.
// Ownership: a function is shared by the plans that run it; the device outlives it. A frame refers
// to memory and collectives of its plan.
// Errors: CallFrame::error, with the user's line.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/devices/collective_queue.h"
#include "executor/store/device_memory.h"
#include "executor/work/shared_counter.h"
#include "executor/work/work.h"
#include "ir/plan/plan.h"
#include "ir/types/limits.h"

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
  std::vector<CollectiveQueue> overlapped;
  uint32_t overlapped_count = 0;
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
  // a collective that all ranks on the device have begun, on a device whose collectives block it.
  Blocks blocks = Blocks::kNothing;
  // Record in `origin_step` the first step whose float inputs were finite and whose outputs are
  // not.
  bool check = false;
  uint32_t origin_step = kNone;
  // A checked call on a discrete device: flags that the device writes for each value, and the mark
  // behind them.
  HostMemory flags;
  uint64_t flags_by = 0;
  // A launch failed: the rest is skipped, as if poisoned. The caller takes the error from here.
  std::shared_ptr<const Error> error;
};

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
  // Waits for the collectives that overlapped_count counts, before the device goes over to other
  // work: that work could hold up what the members of a collective wait for. Device thread.
  virtual Progress join(CallFrame& frame, Turn& turn) const {
    return static_cast<void>(frame), static_cast<void>(turn), Progress::kDone;
  }
  // For a collective that is done: its failure, with the user's line of the step that began it, and
  // whether a member was poisoned, go to the frame. Device thread.
  void take_outcome(const Collective& collective, uint32_t step, CallFrame& frame) const;

  // Called once the steps before commit_step() have run. Stores 1 in `flag`, which lies in host
  // memory of the device, if one of committed_values() (ir/plan/committed_values.h) holds an
  // infinity or a NaN. Device thread.
  virtual void check_committed(const CallFrame& frame, DeviceStream& stream, uint32_t* flag) const {
    static_cast<void>(frame);
    static_cast<void>(stream);
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

}  // namespace gangway
