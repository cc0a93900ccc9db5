// Compiler: compiles the functions of plans that are being installed, and those by which a step is
// diagnosed; on a thread of its own where a device's compile() blocks, so that the reactor answers
// meanwhile.
//
// Jobs are done one after another, in their order. What no device blocks for, and all that a
// simulation compiles, is compiled at once, on the reactor, so that a simulation stays
// deterministic.
//
// Threads: the reactor's; parts are compiled on the compiler's.
// Ownership: devices outlive stop().
// Errors: what a device's compile() threw, in the job.
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

#include "executor/devices/device.h"
#include "runtime/fibers/mailbox.h"
#include "runtime/fibers/reactor.h"
#include "runtime/os/doorbell.h"
#include "runtime/os/thread.h"

namespace gangway {

// Functions of one plan. One compilation serves all devices that are alike.
struct CompileJob {
  struct Part {
    Device* device = nullptr;
    LocalFunction local;
    std::shared_ptr<const CompiledFunction> made;
  };

  // Once for each `number` and family of devices.
  void add(uint32_t number, Device& device, const LocalFunction& local);
  // What add() was given for this number and device, and what was compiled of it; null: nothing was
  // added.
  const Part* part(uint32_t number, const Device& device) const;
  std::shared_ptr<const CompiledFunction> made(uint32_t number, const Device& device) const;

  std::vector<Part> parts;
  std::map<std::pair<uint32_t, const void*>, size_t> index;  // Of parts.
  std::optional<Error> error;
  // On the reactor, unless the job was dropped.
  std::function<void(const CompileJob&)> done;
  std::atomic<bool> dropped{false};  // Set on the reactor: its result is not needed any more.
};

class Compiler {
 public:
  Compiler(std::string name, Reactor& reactor)
      : name_(std::move(name)), mailbox_(reactor.mailbox()), is_simulated_(reactor.simulated()) {}
  ~Compiler() { stop(); }
  Compiler(const Compiler&) = delete;

  void compile(const std::shared_ptr<CompileJob>& job);
  // Ends the compiler. Jobs that are not done are dropped.
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
