// CpuDevice: a device on CPU cores: one thread for the in-order stream, and a few more inside
// kernels.
//
// The thread advances its stream and parks on one doorbell when nothing can go on. The wait policy
// says how long it spins first: not at all when the device threads of this machine outnumber its
// cores, nor when it has nothing to do and would keep a core from threads that bring work. The
// reactor's thread does brief runs while the device's own is parked: one of the two advances the
// stream at a time. `timed` keeps the device busy by sleeping: the thread parks until the time has
// come.
//
// Threads: see device.h.
// Ownership: the destructor stops the thread and drops works that have not run.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "executor/devices/cpu/cpu_compiler.h"
#include "executor/devices/device.h"
#include "executor/kernels/parallel.h"
#include "runtime/os/doorbell.h"
#include "runtime/os/thread.h"
#include "runtime/os/trusted_files.h"

namespace gangway {

struct CpuDeviceOptions {
  std::string name;
  int64_t memory_bytes = 0;
  int threads = 1;  // Threads of the kernels, including the device's own.
  SpinPolicy wait = SpinPolicy::park();
  std::shared_ptr<const TrustedFiles> trusted;  // For users' kernels; null: any file may be loaded.
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options);
  ~CpuDevice() override { stop(); }

  void ring() override;
  int64_t serve_or_ring(int64_t limit_ns) override;
  void stop() override;
  void use_bell(Bell bell) override;
  void expect_peers(int device_threads) override;
  // How long its thread spins before it parks: while it waits for others, or (kDone) has nothing to
  // do.
  int64_t spin_ns(Progress progress) const;
  int64_t now_ns() const override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) override;

 private:
  void push(Work& work, Lane* lane) override;
  void serve();
  Progress advance(Turn& turn);
  int64_t serve_brief(int64_t limit_ns);

  std::mutex advancing_;  // Held by the thread that advances the queue; guards all that works use.
  Parallel par_;
  CpuCompiler compiler_;
  LaneQueue queue_;
  Doorbell own_bell_;
  std::atomic<Doorbell*> bell_{&own_bell_};
  std::atomic<int64_t> spin_ns_, idle_spin_ns_;
  std::atomic<bool> stopping_{false};
  Thread thread_;  // Last: it uses everything above.
};

}  // namespace gangway
