// A session's requests and the answers to them, to and from the wire (protocol/control.capnp).
//
// Threads: pure functions.
// Errors: kInvalid for a reply with an unknown value.
#pragma once

#include <vector>

#include "client/session.h"
#include "protocol/control.capnp.h"

namespace gangway::internal {

std::vector<PlanPort> read_ports(capnp::List<wire::Session::Port>::Reader list);
CompiledPlan read_compiled(wire::Session::Compiled::Reader from);
HeldByProgram read_holdings(wire::Session::HoldingsResults::Reader from);
void write_inputs(capnp::List<wire::Session::ScheduledInput>::Builder to,
                  const std::vector<ScheduledInput>& inputs);

}  // namespace gangway::internal
