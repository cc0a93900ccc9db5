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

#include "client/objects.h"

namespace gangway::internal {

// The position of the port with this name; kInvalid lists those that exist.
uint32_t find_port(const char* what, const std::string& program, const std::vector<PlanPort>& ports,
                   std::string_view name);

// An array of a tensor that the client holds.
std::shared_ptr<ArrayImpl> hold(const std::shared_ptr<Session>& session, const HostTensor& tensor);

// The whole of Executable::run().
std::shared_ptr<RunImpl> run(const std::shared_ptr<ExecutableImpl>& executable,
                             const std::vector<Argument>& arguments, const RunOptions& options);

}  // namespace gangway::internal
