// What Executable::run() does: finds what a run is given, waits for a place, names the run and its
// results, sends it, and hears of its end.
//
// Threads: a user's, or a fiber of the client's reactor; ends are told on the reactor's.
// Errors: kInvalid for arguments that do not fit their inputs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/client_impl.h"

namespace gangway::internal {

// The position of the port with this name; kInvalid lists those that exist.
uint32_t find_port(const char* what, const std::string& program, const std::vector<PlanPort>& ports,
                   std::string_view name);

std::shared_ptr<ArrayImpl> hold(const std::shared_ptr<ClientImpl>& client,
                                const HostTensor& tensor);

// What a run names, and the arrays that must live until its frame is posted.
struct Bound {
  RunFrame frame;
  size_t inline_bytes = 0;
  std::vector<std::shared_ptr<ArrayImpl>> kept;
  std::vector<std::shared_ptr<PlacedCopy>> copies;
};
// Suspends where a tensor is to be copied to the devices first, as this plan has them.
Bound bind_all(ExecutableImpl& executable, PlanId plan, const std::vector<Argument>& arguments);

// Waits at the in-flight bounds, of the executable and of the client; the run's end gives the place
// back. Returns whether no other run of the client is in flight.
bool take_place(ExecutableImpl& executable);
void give_back_place(ExecutableImpl& executable);

// All of it, as the user asks for it.
std::shared_ptr<RunImpl> run(const std::shared_ptr<ExecutableImpl>& executable,
                             const std::vector<Argument>& arguments, const RunOptions& options);

// With an array for each output of the plan.
std::shared_ptr<RunImpl> new_run(const std::shared_ptr<ExecutableImpl>& executable);

struct RunFacts {
  int64_t time_limit_ms = 0;
  uint64_t position = 0;  // In every source.
};
// Gives the run and its results names that are new, and it a place in the chain, and sends it. Its
// end is told to `end` with the client's notify.mutex held, and gives its place back. `enqueueing`
// of the executable is held. `is_only_one`: take_place() said so.
RunId send_one(ExecutableImpl& executable, Outcome& outcome,
               const std::vector<std::shared_ptr<ArrayImpl>>& outputs, Bound bound,
               const RunFacts& facts, bool is_only_one, std::function<void(RunDoneFrame)> end);
// The outcome is known.
void end(Outcome& outcome, RunDoneFrame done);

}  // namespace gangway::internal
