// SimProcess: the one thread of a simulated process. Handling frames takes time on the virtual
// clock, and the process does one thing after another.
//
//   kFree      nothing takes time
//   kModelled  the committed table says what it takes: repeats exactly from a seed
//   kMeasured  handling a frame takes the processor's time that it really took; system calls, which
//              a simulation does not make, take the table's time. For figures only.
//
// Compiling takes time by the number of nodes, and holds up nothing else; other RPC (allocate,
// link) takes none. A process that is stopped does nothing until it goes on, as after SIGSTOP:
// timers that were due meanwhile fire then.
//
// Threads: the reactor's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/fibers/reactor.h"
#include "runtime/net/pacer.h"

namespace gangway {

// Times of what a process does. Round figures of one server core of 2023: a frame is decoded,
// handled and answered in about a microsecond and a half, a call of the system that moves bytes
// costs three.
struct ProcessRates {
  int64_t frame_in_ns = 1'500;
  int64_t frame_out_ns = 500;
  int64_t read_ns = 3'000;
  int64_t write_ns = 3'000;
  double ns_per_byte = 0.25;
  int64_t call_ns = 100;        // Executors: host-side work of one call of a run.
  int64_t compile_ns = 20'000;  // For each node of a program or a plan.
};

enum class ProcessTime : uint8_t { kFree, kModelled, kMeasured };

struct ProcessCounts {
  uint64_t frames_in = 0, frames_out = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
  int64_t busy_ns = 0;  // On the virtual clock.
  // The part of busy_ns that handling frames really took; kMeasured only.
  int64_t processor_ns = 0;
};

class SimProcess final : public Pacer {
 public:
  SimProcess(Reactor& reactor, ProcessTime time, ProcessRates rates = {})
      : reactor_(reactor), time_(time), rates_(rates) {}

  void stop() { stopped_ = true; }
  void resume();
  bool stopped() const { return stopped_; }
  const ProcessCounts& counts() const { return counts_; }

  void begin_frame(size_t bytes) override;
  void end_frame() override;
  void write(size_t frames, size_t bytes) override;
  void prepare_calls(size_t calls) override;
  void compile(size_t nodes) override;
  void wake() override;

 private:
  void wait_until_running();
  void work(int64_t ns);
  int64_t moving_ns(size_t bytes) const;

  Reactor& reactor_;
  const ProcessTime time_;
  const ProcessRates rates_;
  bool stopped_ = false;
  WaitQueue resumed_;
  int64_t free_at_ns_ = 0;      // When all that it has begun is done.
  int64_t frame_begun_ns_ = 0;  // kMeasured: on the thread's processor clock.
  ProcessCounts counts_;
};

}  // namespace gangway
