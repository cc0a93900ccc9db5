// EmulatedMachine: GPUs that exist only in tests; each has a cuda::Driver.
//
// Why: a mistake in ordering a host, streams and memory rarely shows on a card, and no card is
// needed to find it. Here a call only enqueues; operations run later, one at a time, in an order
// between streams that is drawn from a seed. Every range that an operation declares is checked
// against the accesses that happen before it (vector clocks of streams and of the host, joined by
// events and by queries), so that two unordered accesses are reported whatever order was drawn.
// Kernels run for real, with a fiber for each thread. Every element that they touch must lie in a
// range that the launch declared and be initialised, and threads may not race for it.
//
// Limits: the host is one lane, so races between threads of the host are not seen. Collectives
// order nothing between devices but their own data. An operation with bad bounds is not run.
//
// Threads: any. Operations usually advance only inside calls (enqueues and queries now and then run
// a few) and in step(). With `background` a thread of its own runs them, for programs that park
// until notify() rings. Then the order varies from run to run; reports do not depend on it.
// Errors: reports(); calls answer statuses as a card would.
//
// Example:
//   EmulatedMachine machine({.seed = seed});
//   launch_something(machine.driver());
//   machine.run_all();
//   EXPECT_EQ(machine.report_text(), "");
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/devices/cuda/driver/driver.h"
#include "executor/devices/cuda/kernels/kernel_source.h"
#include "tests/emulated/report.h"

namespace gangway::emulated {

// The operations that its libraries offer. Preparing another one fails: kUnimplemented.
enum class Library : uint8_t {
  kProducts,  // Plain products only: Gangway's own kernels do attention, experts and epilogues.
  kAll,
};

struct EmulatedOptions {
  uint64_t seed = 0;
  uint32_t devices = 1;
  int64_t memory_bytes = int64_t{64} << 20;  // Memory of each device.
  bool background = false;
  // Without `background`: a callback runs only when the host waits and nothing else is left to run.
  bool late_callbacks = false;
  Library library = Library::kAll;
  std::vector<const cuda::HostKernelTable*> kernels = {};  // Added to Gangway's own kernels.
  std::function<void()> before_compile = {};               // Runs on the thread that compiles.
};

// The next operation whose label contains `label` goes wrong, after `skip` others that match:
//
//   kLaunch, kInvalid, kUnsupported, kOutOfMemory   the call answers it
//   kFault                                          the operation breaks as it runs: sticky
//   kAborted                                        the communicator of the operation breaks as it
//                                                   runs; only queries on this device report it
//
// "create_comm" is the label of creating a communicator; kLaunch, kOutOfMemory and kAborted fail
// it.
struct Injection {
  cuda::StatusKind kind = cuda::StatusKind::kLaunch;
  std::string label;
  uint32_t skip = 0;
};

struct Core;

class EmulatedMachine {
 public:
  explicit EmulatedMachine(EmulatedOptions options = {});
  ~EmulatedMachine();
  EmulatedMachine(const EmulatedMachine&) = delete;

  cuda::Driver& driver(uint32_t device = 0);

  // Runs one operation; false: none can run.
  bool step();
  void run_all();

  void inject(Injection injection);

  // Operations whose label contains `label` stay in their streams until release(), as if they took
  // long.
  void hold(std::string label);
  void release();
  // Number of operations with such a label that have run.
  uint64_t ran(const std::string& label) const;
  // Blocks until an operation with such a label has run. False: none has for 30 seconds. With
  // `background` only.
  bool wait_until_ran(const std::string& label) const;
  // A planted bug: waits with such a label are lost from now on.
  void lose_waits(std::string label);

  std::vector<Report> reports() const;
  // One line for each report. Empty if there are none.
  std::string report_text() const;
  uint64_t operations_run() const;
  // Counts the communicators of all devices, one for each member. Aborted ones still count.
  uint64_t communicators_made() const;
  uint64_t communicators_aborted() const;

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace gangway::emulated
