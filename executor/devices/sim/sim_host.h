// SimHost: one simulated host as the simulation sees it: the properties of its devices, the faults
// put into them, and what they have done.
//
// Its devices compute real values and are charged modelled time for them. With `timed_only` only
// the time passes: no kernel runs, no source is read, and no tensor is touched or has memory, so
// that programs run that would not fit on this machine. Values read from such a device are not
// valid.
//
// Threads: the reactor's.
// Ownership: shared by its devices and the simulation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/devices/cpu/step_timer.h"
#include "executor/devices/sim/links.h"
#include "executor/store/device_memory.h"
#include "runtime/base/replay_hash.h"

namespace gangway {

class SimDevice;

// A span in which a device of a simulation was busy with a program.
struct BusySpan {
  std::string device;   // Its name.
  std::string program;  // Its name.
  int64_t begin_ns = 0, end_ns = 0;
};

struct SimHostOptions {
  bool timed_only = false;
  SimLinks links;  // Links between its devices and others.
  // timed_only: memory of its buffers (unread_memory.h); null: memory of each device.
  std::shared_ptr<MemoryBlocks> memory;
  // Gets every step of its devices; null: steps are not hashed. It outlives the host.
  ReplayHash* replay = nullptr;
  // Gets a span for each step of a program, when it begins; null: spans are not kept. It outlives
  // the host.
  std::vector<BusySpan>* busy = nullptr;
};

class SimHost final : public StepTimer {
 public:
  explicit SimHost(SimHostOptions options = {}) : options_(std::move(options)) {}

  const SimHostOptions& options() const { return options_; }

  // Kernels take `factor` times as long from now on.
  void slow_down(double factor) { slowness_ = factor; }
  // From stop() to resume() its devices stand still, as if their process were stopped. The time of
  // a step that has begun passes meanwhile.
  void stop() { stopped_ = true; }
  void resume();
  bool stopped() const { return stopped_; }
  // Takes all memory of its devices that is free, until free_memory().
  void exhaust_memory();
  void free_memory();

  // Time for which its devices were busy with steps, together: by name of the program, and in all.
  // Waiting for the other members of a collective is not counted.
  const std::map<std::string, int64_t>& busy_ns_by_program() const { return by_program_; }
  int64_t busy_ns() const { return busy_ns_; }

  // Called by its devices.
  void add(SimDevice& device) { devices_.push_back(&device); }
  void remove(SimDevice& device);

  int64_t kernel_ns(const Function& function, NodeId node) const override;
  int64_t collective_ns(CollectiveKind kind, double bytes, const PeerCounts& peers) const override {
    return options_.links.collective_ns(kind, bytes, peers);
  }
  int64_t begin_step(const CallFrame& frame, Turn& turn, int64_t cost_ns) override;
  int64_t begin_collective(const CallFrame& frame, Turn& turn, int64_t cost_ns) override;

 private:
  int64_t count(const CallFrame& frame, Turn& turn, int64_t ns);

  const SimHostOptions options_;
  std::vector<SimDevice*> devices_;
  double slowness_ = 1;
  bool stopped_ = false;
  std::map<SimDevice*, int64_t> taken_;  // Memory taken by exhaust_memory().
  int64_t busy_ns_ = 0;
  std::map<std::string, int64_t> by_program_;
};

}  // namespace gangway
