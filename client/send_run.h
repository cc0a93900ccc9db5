// The work of Executable::run(): finds a run's arguments, waits for a place, names the run and its
// results, sends it, and takes its end.
//
// Threads: a user's, or a fiber of the client's reactor; ends are reported on the reactor's.
// Errors: kInvalid for arguments that do not fit their inputs.
#pragma once

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

// A run's frame, and the arrays that must live until it is posted.
struct Bound {
  RunFrame frame;
  size_t inline_bytes = 0;
  std::vector<std::shared_ptr<ArrayImpl>> kept;
  std::vector<std::shared_ptr<PlacedCopy>> copies;
};
// Suspends where a tensor is first copied to the devices, as the plan lays it out.
Bound bind_all(ExecutableImpl& executable, const std::vector<Argument>& arguments);

// Waits at the in-flight bounds of the executable and of the client; the run's end gives the place
// back. Returns whether no other run of the client is in flight.
bool take_place(ExecutableImpl& executable);

// The whole of Executable::run().
std::shared_ptr<RunImpl> run(const std::shared_ptr<ExecutableImpl>& executable,
                             const std::vector<Argument>& arguments, const RunOptions& options);

// Creates a run with an array for each output of the plan.
std::shared_ptr<RunImpl> new_run(const std::shared_ptr<ExecutableImpl>& executable);

struct RunFacts {
  int64_t time_limit_ms = 0;
  uint64_t position = 0;  // Position in every source.
};
// Gives the run and its results names and a place in the chain, and sends it. The run's end sets
// its outcome, and gives its place back. The caller holds `enqueueing` of the executable.
// `is_only_one`: what take_place() returned.
void send_one(RunImpl& run, Bound bound, const RunFacts& facts, bool is_only_one);

}  // namespace gangway::internal
