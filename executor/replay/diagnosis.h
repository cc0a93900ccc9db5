// Diagnosis: finds the op that first computed a number that is not finite. It runs a step that did
// not commit again.
//
// The same inputs are replayed with every fused chain taken apart and every result checked. All
// devices do it together, so that every collective has all its members. Then all agree in one
// exchange on the finding with the lowest position, and only the device that has it reports it. If
// no op had finite operands and a result that is not, the state or input that is not finite is
// named instead.
//
// Threads: the device's, which compiles nothing: the unfused functions come from the host's
// compiler (add_unfused), and advance() returns kPending until then.
// Memory: an arena for the unfused functions, allocated when it is needed and freed afterwards.
// Without it the step still fails, only the op stays unnamed.
// Errors: a failure in the replay (no memory, a launch) is a line of context of error(). This
// device then names nothing, and takes part in the steps of the others.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "executor/devices/compiler.h"
#include "executor/replay/device_plan.h"

namespace gangway {

class Diagnosis {
 public:
  // The functions compiled for it. Once they are compiled, `done` is set and the device rung.
  struct Unfused {
    CompileJob job;
    std::atomic<bool> done{false};
  };

  // `frames`: those of the run, by node; their bases are taken over.
  Diagnosis(const LaidOutShare& share, Collective* gate, const std::vector<CallFrame>& frames,
            std::shared_ptr<const Unfused> unfused);

  Progress advance(Turn& turn);
  // Once done: the error to report, and whether this device found it.
  std::shared_ptr<const Error> error() const { return error_; }
  bool is_origin() const { return is_origin_; }
  // See Work::blocks().
  Blocks blocks() const { return begun_ ? frame_.blocks : Blocks::kNothing; }

 private:
  Progress replay(Turn& turn);
  void keep(const Error& failure);
  void begin_call(const Entry& entry);
  void end_call(const Entry& entry);
  void look_at_parameters();
  bool landed(Turn& turn);
  void name_parameter(const Entry& entry);
  void conclude();

  const LaidOutShare& laid_;
  Collective* const gate_;
  const std::vector<CallFrame>& frames_;
  const std::shared_ptr<const Unfused> job_;
  uint32_t cursor_ = 0;
  bool begun_ = false;
  bool looking_ = false;  // It checks the parameters of the call at the cursor.
  bool marked_ = false;
  bool agreeing_ = false;
  Mark mark_ = 0;
  CallFrame frame_;
  std::shared_ptr<const CompiledFunction> unfused_;
  std::shared_ptr<const Function> source_;  // The function that unfused_ was compiled from.
  BufferPtr arena_;
  HostMemory flags_;  // u32 for each parameter: it is not finite.
  // Node of the plan and step of its function; the lowest is agreed on.
  uint64_t finding_ = ~uint64_t{0};
  std::string what_, at_;
  std::string failure_;  // The first failure of the replay; empty: none.
  std::shared_ptr<const Error> error_;
  bool is_origin_ = false;
};

// Adds the unfused functions of the share's calls; call node n has the number of its function.
void add_unfused(const LaidOutShare& share, CompileJob& job);

// The same function with every fused chain as its single ops, in its bodies too.
LocalFunction unfuse(const LocalFunction& local);

}  // namespace gangway
