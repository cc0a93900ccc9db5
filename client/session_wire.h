// A session's requests and the answers to them, to and from the wire (protocol/control.capnp).
//
// Threads: pure functions.
// Errors: kInvalid for a reply with an unknown value.
#pragma once

#include <vector>

#include "client/log_lines.h"
#include "client/program_graph.h"
#include "client/session.h"
#include "client/status.h"
#include "protocol/control.capnp.h"
#include "protocol/program_log.h"

namespace gangway::internal {

std::vector<PlanPort> read_ports(capnp::List<wire::Session::Port>::Reader list);
CompiledPlan read_compiled(wire::Session::Compiled::Reader from);
HeldByProgram read_holdings(wire::Session::HoldingsResults::Reader from);
void write_inputs(capnp::List<wire::Session::ScheduledInput>::Builder to,
                  const std::vector<ScheduledInput>& inputs);
RepeatReport read_repetition(wire::Session::RepetitionResults::Reader from);
void write_reading(wire::Session::ReadStatesParams::Builder to, const StatesRequest& asked);
kj::Promise<capnp::Response<wire::Session::LogResults>> send_lines(wire::Session::Client& session,
                                                                   const LogLines::Call& call);
ProgramGraph read_graph(wire::Controller::GraphResults::Reader from);
// `self`: the session that asks.
ClusterStatus read_status(wire::Controller::StatusResults::Reader from, uint64_t self);
ProgramLog read_log(wire::Controller::LogsResults::Reader from);

}  // namespace gangway::internal
