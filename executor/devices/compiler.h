// Compiler: compiles the functions of plans that are being installed, and the functions that
// diagnose a step. It uses a thread of its own if a device's compiler blocks, so that the reactor
// answers meanwhile.
//
// Jobs are done one after another, in their order. A job that blocks no device is compiled at once,
// on the reactor, and so is every job in a simulation, which stays deterministic.
//
// Threads: the reactor's; parts are compiled on the compiler's.
// Ownership: the compilers of devices outlive stop().
// Errors: the job has the error that a device's compiler threw.
// Cost: stop() waits for the function that is being compiled.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/devices/device_compiler.h"
#include "runtime/fibers/mailbox.h"
#include "runtime/fibers/reactor.h"
#include "runtime/os/doorbell.h"
#include "runtime/os/thread.h"

namespace gangway {

// Functions of one plan. Devices of one family share a compilation.
struct CompileJob {
  struct Part {
    DeviceCompiler* compiler = nullptr;
    LocalFunction local;
    std::shared_ptr<const CompiledFunction> made;
  };

  // Adds one part for each `number` and family of devices.
  void add(uint32_t number, DeviceCompiler& compiler, const LocalFunction& local);
  // The arguments of add() for this number and family, and the function compiled from them; null if
  // nothing was added.
  const Part* part(uint32_t number, const DeviceCompiler& compiler) const;
  std::shared_ptr<const CompiledFunction> made(uint32_t number,
                                               const DeviceCompiler& compiler) const;

  std::vector<Part> parts;
  std::map<std::pair<uint32_t, const void*>, size_t> index;  // Index into `parts`.
  std::optional<Error> error;
  // Called on the reactor, unless the job was dropped.
  std::function<void(const CompileJob&)> done;
  std::atomic<bool> dropped{false};  // Set on the reactor: the result is not needed any more.
};

class Compiler {
 public:
  Compiler(std::string name, Reactor& reactor)
      : name_(std::move(name)), mailbox_(reactor.mailbox()), is_simulated_(reactor.simulated()) {}
  ~Compiler() { stop(); }
  Compiler(const Compiler&) = delete;

  void compile(const std::shared_ptr<CompileJob>& job);
  // Ends the compiler and drops jobs that are not done.
  void stop();

 private:
  void serve();

  const std::string name_;
  Mailbox& mailbox_;
  const bool is_simulated_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<CompileJob>> jobs_;  // The first is being compiled.
  bool stop_ = false;
  Doorbell bell_;
  Thread thread_;  // Started by the first job that blocks.
};

}  // namespace gangway
