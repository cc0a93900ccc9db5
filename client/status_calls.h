// Calls that ask the controller for programs' status and logs, from the wire form and into it.
//
// Threads: the reactor's thread; read_log() suspends.
// Errors: those of ControllerConnection.
#pragma once

#include <string>

#include "client/connection.h"
#include "client/log_lines.h"
#include "client/status.h"
#include "protocol/program_log.h"

namespace gangway::internal {

// `self`: the session that asks.
ClusterStatus read_status(wire::Controller::StatusResults::Reader from, uint64_t self);

kj::Promise<capnp::Response<wire::Session::LogResults>> send_lines(wire::Session::Client& session,
                                                                   const LogLines::Call& call);
ProgramLog read_log(ControllerConnection& connection, const std::string& name,
                    const LogRequest& request);

}  // namespace gangway::internal
