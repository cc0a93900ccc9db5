// Repeats: programs whose steps the controller enqueues by itself, so that they go on without a
// client: a plan, how many steps, and what each input is in each of them (protocol/schedule.h).
//
// A step is a run like a client's, of names that the client gave: so it waits in line with its
// other runs, shares devices with others' and commits only behind the step before it. As many are
// ahead as the plan may have in flight. The first that fails ends the repetition: its error is
// kept, until the plan is repeated again or released, and so are the scalar outputs of the last
// good step.
//
// Threads: the reactor's thread; wait() suspends. Each repetition has a fiber, which ends with it.
// Ownership: what the callbacks refer to outlives it.
// Errors: begin() throws kInvalid for what the plan does not take, and while one is under way.
// Cost: O(inputs + outputs) a step; a repetition that has ended keeps its schedule and outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "controller/lowering/plans.h"
#include "protocol/reported.h"
#include "protocol/schedule.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/stop.h"

namespace gangway {

inline constexpr int64_t kRepeatStepsMax = int64_t{1} << 30;

struct RepeatRequest {
  uint64_t number = 0;  // The client's, which grows; begun once, however often it is asked.
  PlanId plan;
  int64_t steps = 0;
  std::vector<ScheduledInput> inputs;  // Each of the plan's once.
  RunId first;                         // Step i is first + i * (outputs + 1), with its outputs.
  uint64_t position = 0;               // Of the sources in step 0.
  RunId after;                         // As RunFrame, of the first step that is enqueued.
  int64_t begin = 0;  // So many steps have committed already, under an earlier controller.
};

struct RepeatProgress {
  uint64_t number = 0;  // 0: there was none.
  int64_t steps = 0;
  int64_t done = 0;       // That have committed.
  uint64_t position = 0;  // Of the next step's sources.
  bool ended = false;
  std::optional<Error> error;  // Why it ended early.
  Reported outputs;            // The scalars of the last step that has committed.
};

class Repeats {
 public:
  // Enqueues a step. Its end comes to run_ended().
  using Submit = std::function<void(SessionId, RunFrame)>;
  // Told that one has begun or ended, in words. Must not suspend.
  using Tell = std::function<void(SessionId, const std::string&)>;
  Repeats(Reactor& reactor, Submit submit, Tell tell)
      : submit_(std::move(submit)), tell_(std::move(tell)), fibers_(reactor) {}

  // The last of the names that its steps will have.
  uint64_t begin(const PlanRecord& plan, RepeatRequest request);
  // Why no other run of the plan may go between its steps; none while it is not repeated.
  std::optional<Error> refusal(PlanId plan) const;
  RepeatProgress progress(PlanId plan) const;
  // What was asked for last, with as many steps as it comes to: fewer where it was cancelled.
  std::optional<RepeatRequest> asked(PlanId plan) const;
  // Of the states before step 0, as a step that has committed shows it; none: none has.
  std::optional<StateVersion> first_version(PlanId plan) const;
  // What it has come to once no step is under way any more, unless `asker` is stopped before.
  // kUnavailable: the plan has gone.
  RepeatProgress wait(PlanId plan, const StopToken& asker = {});
  void cancel(PlanId plan);  // No step is enqueued any more.
  // The same of all of this session's. Suspends until none is under way, or it is so late.
  void end_all(SessionId session, int64_t deadline_ns);

  // Whether it is a step that was enqueued and has not ended.
  bool is_step(SessionId session, RunId run) const { return in_flight_.contains({session, run}); }
  // False: it was none of its steps.
  bool run_ended(SessionId session, const RunDoneFrame& done);
  void plan_gone(PlanId plan);
  void session_closed(SessionId session);
  // "step" and the scalar outputs of what the session repeated last; empty: nothing.
  Reported reported(SessionId session) const;
  size_t size() const { return by_plan_.size(); }

 private:
  struct Repetition;
  using RepetitionPtr = std::shared_ptr<Repetition>;
  static bool has_ended(const Repetition& one);
  static RepeatProgress progress_of(const Repetition& one);
  RunFrame step_of(const Repetition& one, int64_t step) const;
  void drive(const RepetitionPtr& one);
  void tell_end(const Repetition& one) const;
  void forget(const RepetitionPtr& one);
  std::vector<RepetitionPtr> all_of(SessionId session) const;

  const Submit submit_;
  const Tell tell_;
  std::map<PlanId, RepetitionPtr> by_plan_;
  std::map<std::pair<SessionId, RunId>, RepetitionPtr> in_flight_;  // By step.
  FiberGroup fibers_;
};

}  // namespace gangway
