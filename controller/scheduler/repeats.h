// Repeats: the repetitions of one program, whose steps the controller enqueues by itself, so that
// they go on without a client. A repetition has a plan, a number of steps, and for each input its
// value in each step (protocol/schedule.h; a record of an earlier release has those of
// earlier_schedule.h too).
//
// A step is a run like a client's, with names that the client gave: it waits in line with the
// client's other runs, shares devices with others' and commits only behind the step before it. A
// repetition keeps as many steps ahead as the plan may have in flight. The first step that fails
// ends it. Its error, and the scalar outputs of the last good step, are kept until the plan is
// repeated again or released.
//
// Threads: the reactor's thread; wait() and end_all() suspend, and the program may end meanwhile.
// Each repetition has a fiber, which ends with it.
// Ownership: the program's (programs/program.h), and it ends with it; the fibers outlive it, as do
// objects that the callbacks refer to. Steps that end later are not reported to anyone.
// Errors: begin() throws kInvalid for inputs and names that the plan does not take, and while a
// repetition of the plan is under way.
// Cost: O(inputs + outputs) a step; a repetition that has ended keeps its schedule and outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "controller/plans/plans.h"
#include "controller/scheduler/earlier_schedule.h"
#include "protocol/reported.h"
#include "protocol/schedule.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/stop.h"

namespace gangway {

inline constexpr int64_t kRepeatStepsMax = int64_t{1} << 30;

struct RepeatRequest {
  uint64_t number = 0;  // The client's, ascending; begun once, however often it is asked.
  PlanId plan;
  int64_t steps = 0;
  // Each input of the plan once, in one of the two.
  std::vector<ScheduledInput> inputs;
  std::vector<EarlierInput> earlier = {};
  RunId first;            // Step i is first + i * (outputs + 1), with its outputs.
  uint64_t position = 0;  // Position of the sources in step 0.
  RunId after;            // See RunFrame: for the first step that is enqueued.
  int64_t begin = 0;      // Steps that have committed already, under an earlier controller.
};

struct RepeatProgress {
  uint64_t number = 0;  // 0: there was none.
  int64_t steps = 0;
  int64_t done = 0;       // Steps that have committed.
  uint64_t position = 0;  // Position of the next step's sources.
  bool ended = false;
  std::optional<Error> error;  // Why it ended early.
  Reported outputs;            // The scalars of the last step that has committed.
};

class Repeats {
 public:
  // Enqueues a step. Its end comes to run_ended().
  using Submit = std::function<void(RunFrame)>;
  // Gets a line when a repetition has begun or ended. Must not suspend.
  using Tell = std::function<void(const std::string&)>;
  Repeats(FiberGroup& fibers, Submit submit, Tell tell)
      : fibers_(fibers), submit_(std::move(submit)), tell_(std::move(tell)) {}
  ~Repeats();
  Repeats(const Repeats&) = delete;

  // Begins a repetition. Returns the last of the names that its steps will have. `held`: the
  // controller's memory for its inputs, given back when the plan is repeated again or gone.
  uint64_t begin(const PlanRecord& plan, RepeatRequest request, OwnerUse::Hold held = {});
  // Why no other run of the plan may go between its steps; none while the plan is not repeated.
  std::optional<Error> refusal(PlanId plan) const;
  RepeatProgress progress(PlanId plan) const;
  // The last request, with the number of steps that it comes to: fewer where it was cancelled.
  std::optional<RepeatRequest> asked(PlanId plan) const;
  // Version of the states before step 0, as a step that has committed shows it; none: no step has.
  std::optional<StateVersion> first_version(PlanId plan) const;
  // Returns the progress once no step is under way any more, unless `asker` is stopped before.
  // kUnavailable: the plan has gone.
  RepeatProgress wait(PlanId plan, const StopToken& asker = {});
  void cancel(PlanId plan);  // No step is enqueued any more.
  // Cancels all repetitions. Suspends until no step is under way, or the deadline.
  void end_all(int64_t deadline_ns);

  // Whether the run is a step that was enqueued and has not ended.
  bool is_step(RunId run) const { return in_flight_.contains(run); }
  // Returns false if the run is no step.
  bool run_ended(const RunDoneFrame& done);
  void plan_gone(PlanId plan);
  // "step" and the scalar outputs of the last repetition; empty: there is none.
  Reported reported() const;
  size_t size() const { return by_plan_.size(); }

 private:
  struct Repetition;
  using RepetitionPtr = std::shared_ptr<Repetition>;
  static bool has_ended(const Repetition& one);
  static RepeatProgress progress_of(const Repetition& one);
  RunFrame step_of(const Repetition& one, int64_t step) const;
  void drive(const RepetitionPtr& one);
  void report_end(Repetition& one) const;
  void forget(const RepetitionPtr& one);
  std::vector<RepetitionPtr> all() const;

  FiberGroup& fibers_;
  const Submit submit_;
  const Tell tell_;
  std::map<PlanId, RepetitionPtr> by_plan_;
  std::map<RunId, RepetitionPtr> in_flight_;  // Key: a step.
};

}  // namespace gangway
