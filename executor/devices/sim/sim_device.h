// SimDevice: a device on the virtual clock: the CPU's steps, computed inline on the reactor, each
// charged modelled time.
//
// A fiber takes the place of the device's thread and advances the same stream. Values are real;
// time is that of the rates of "sim" (ir/plan/rates.h), so that a run's timing repeats exactly from
// its seed.
//
// Threads: the reactor's only.
// Ownership: the destructor stops the fiber and drops what has not run.
#pragma once

#include <memory>
#include <string>

#include "executor/devices/device.h"
#include "executor/kernels/parallel.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

class SimDevice final : public Device {
 public:
  SimDevice(Reactor& reactor, std::string name, int64_t memory_bytes);
  ~SimDevice() override;

  std::shared_ptr<const CompiledFunction> compile(const LocalFunction& local) override;
  void enqueue(Work& work) override;
  void ring() override;
  void stop() override;
  // It is rung through a function of its own: see bell().
  void use_bell(Bell) override {}
  Bell bell() const { return {nullptr, bell_}; }
  int64_t now_ns() const override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) override;

 private:
  void serve();

  Reactor& reactor_;
  Parallel par_{1};
  const std::shared_ptr<SimDevice*> rung_device_;  // Peers may ring one that has gone: null then.
  const std::shared_ptr<const std::function<void()>> bell_;
  Stream stream_;
  bool rung_ = false;
  bool stopping_ = false;
  WaitQueue ringing_;
  Fiber fiber_;
};

}  // namespace gangway
