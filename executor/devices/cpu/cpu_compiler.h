// CpuCompiler: compiles functions for CPU devices; any of them runs what one of them compiled.
//
// Threads, errors: see device_compiler.h. Ownership: the threads of the kernels are the device's.
#pragma once

#include <memory>
#include <utility>

#include "executor/devices/cpu/cpu_function.h"
#include "executor/devices/device_compiler.h"
#include "executor/kernels/parallel.h"
#include "runtime/os/trusted_files.h"

namespace gangway {

class CpuCompiler final : public DeviceCompiler {
 public:
  // `trusted`: for users' kernels; null: any file may be loaded.
  CpuCompiler(Parallel& par, std::shared_ptr<const TrustedFiles> trusted)
      : par_(par), trusted_(std::move(trusted)) {}

  std::shared_ptr<const CompiledFunction> compile(const LocalFunction& local) override {
    return std::make_shared<const CpuFunction>(local, par_, nullptr, trusted_.get());
  }
  bool blocks() const override { return true; }

 private:
  Parallel& par_;
  const std::shared_ptr<const TrustedFiles> trusted_;
};

}  // namespace gangway
