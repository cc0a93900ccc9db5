// DeviceCompiler: compiles local functions for one device. Like nvrtc and a module of CUDA.
//
// compiler.h has the thread that calls it for a host.
//
// The interface has 4 members.
// Threads: any.
// Ownership: the device, which owns it, outlives all functions that it compiled. A function may
// outlive its plan.
// Errors: compile() throws kInvalid or kUnimplemented with the user's line.
// Cost: compile() takes microseconds to seconds and suspends nothing; see blocks().
#pragma once

#include <memory>

#include "executor/devices/compiled_function.h"
#include "ir/plan/plan.h"

namespace gangway {

class DeviceCompiler {
 public:
  DeviceCompiler() = default;
  virtual ~DeviceCompiler() = default;
  DeviceCompiler(const DeviceCompiler&) = delete;
  DeviceCompiler& operator=(const DeviceCompiler&) = delete;

  virtual std::shared_ptr<const CompiledFunction> compile(const LocalFunction& local) = 0;
  // Whether compile() may take longer than the reactor may be blocked (large functions, libraries
  // that compile kernels).
  virtual bool blocks() const { return false; }
  // Devices whose compilers return the same pointer can run functions compiled for any of them.
  virtual const void* family() const { return nullptr; }
  // Frees what the device keeps for compiled functions that are gone.
  virtual void trim() {}
};

}  // namespace gangway
