// SimCompiler: compiles functions for simulated devices: the CPU's steps, each charged modelled
// time, or the time alone (timed_function.h).
//
// Threads: the reactor's. Errors: see device_compiler.h. Ownership: shares the simulated host.
#pragma once

#include <memory>
#include <utility>

#include "executor/devices/cpu/cpu_function.h"
#include "executor/devices/device_compiler.h"
#include "executor/devices/sim/sim_host.h"
#include "executor/devices/sim/timed_function.h"
#include "executor/kernels/parallel.h"

namespace gangway {

class SimCompiler final : public DeviceCompiler {
 public:
  SimCompiler(Parallel& par, std::shared_ptr<SimHost> host) : par_(par), host_(std::move(host)) {}

  std::shared_ptr<const CompiledFunction> compile(const LocalFunction& local) override {
    if (host_->options().timed_only) return std::make_shared<const TimedFunction>(local, *host_);
    return std::make_shared<const CpuFunction>(local, par_, host_.get());
  }

 private:
  Parallel& par_;
  const std::shared_ptr<SimHost> host_;
};

}  // namespace gangway
