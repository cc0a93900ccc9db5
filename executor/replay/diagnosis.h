// Diagnosis: finds the op that first computed a number that is not finite, by running a step that
// did not commit again.
//
// The same inputs are replayed with every fused chain taken apart and every result looked at. All
// devices do it together, so that every collective has all its members. Then all agree in one
// exchange on the finding with the lowest position, and only the device that has it reports it.
// Where no op had finite operands and a result that is not, the state or input that is not finite
// is named instead.
//
// Threads: the device's, which compiles nothing: the unfused functions come from the host's
// compiler (add_unfused), and advance() says kPending until then.
// Memory: an arena for the unfused functions, asked for when it is needed and given back; without
// it the step still fails, only the op stays unnamed.
// Errors: what fails in the replay (no memory, a launch) is a line of context of error(); this
// device then names nothing, and takes part in what the others do.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "executor/devices/compiler.h"
#include "executor/replay/device_plan.h"

namespace gangway {

class Diagnosis {
 public:
  // What is compiled for it. Who has compiled sets `done` and rings the device.
  struct Unfused {
    CompileJob job;
    std::atomic<bool> done{false};
  };

  // `frames`: of the run, by node; their bases are taken over.
  Diagnosis(const DevicePlan& plan, const std::vector<CallFrame>& frames,
            std::shared_ptr<const Unfused> unfused);

  Progress advance(Turn& turn);
  // Once done: what to tell, and whether this device found it.
  std::shared_ptr<const Error> error() const { return error_; }
  bool culprit() const { return culprit_; }
  // As Work::holds().
  Hold holds() const { return begun_ ? frame_.holds : Hold::kNothing; }

 private:
  Progress replay(Turn& turn);
  void keep(const Error& failure);
  void begin_call(const Entry& entry);
  void end_call(const Entry& entry);
  void look_at_parameters();
  bool landed(Turn& turn);
  void name_parameter(const Entry& entry);
  void conclude();

  const DevicePlan& plan_;
  const std::vector<CallFrame>& frames_;
  const std::shared_ptr<const Unfused> job_;
  uint32_t cursor_ = 0;
  bool begun_ = false;
  bool looking_ = false;  // At the parameters of the call at the cursor.
  bool marked_ = false;
  bool agreeing_ = false;
  Mark mark_ = 0;
  CallFrame frame_;
  std::shared_ptr<const CompiledFunction> unfused_;
  std::shared_ptr<const Function> source_;  // What unfused_ was compiled from.
  BufferPtr arena_;
  HostMemory flags_;  // u32 for each parameter: it is not finite.
  // Node of the plan and step of its function; the lowest is agreed on.
  uint64_t finding_ = ~uint64_t{0};
  std::string what_, at_;
  std::string failure_;  // What failed first in the replay; empty: nothing.
  std::shared_ptr<const Error> error_;
  bool culprit_ = false;
};

// The unfused functions of the plan's calls; call node n has the number of its function.
void add_unfused(const DevicePlan& plan, CompileJob& job);

// The same function with every fused chain as its single ops, in its bodies too.
LocalFunction unfuse(const LocalFunction& local);

}  // namespace gangway
