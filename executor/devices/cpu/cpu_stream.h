// CpuStream: the work of a CPU device: one thread for the works, and a few more inside kernels.
//
// The thread advances its works and parks on one doorbell when nothing can go on. The wait policy
// says how long it spins first: not at all when the device threads of this machine outnumber its
// cores, nor when it has nothing to do and would keep a core from threads that bring work. The
// reactor's thread does brief runs while the device's own is parked: one of the two advances the
// works at a time. `timed` keeps the device busy by sleeping: the thread parks until the time has
// come.
//
// Threads: see device_stream.h.
// Ownership: the threads of the kernels are the device's. The destructor stops the thread and drops
// works that have not run.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "executor/devices/threaded_stream.h"
#include "executor/kernels/parallel.h"

namespace gangway {

class CpuStream final : public ThreadedStream {
 public:
  CpuStream(const std::string& device, Parallel& par, SpinPolicy wait);
  ~CpuStream() override { stop(); }

  int64_t serve_or_ring(int64_t limit_ns) override;
  void stop() override;
  void expect_peers(int device_threads) override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) override;

  // How long its thread spins before it parks: while it waits for others, or (kDone) has nothing to
  // do.
  int64_t spin_ns(Progress progress) const;

 private:
  void serve();
  Progress advance(Turn& turn);
  int64_t serve_brief(int64_t limit_ns);

  std::mutex advancing_;  // Held by the thread that advances the queue; guards all that works use.
  Parallel& par_;
  std::atomic<int64_t> spin_ns_, idle_spin_ns_;
};

}  // namespace gangway
