// What a controller says of its hosts and programs, in the wire form that Client::status() reads.
//
// Threads: the reactor's thread.
#pragma once

#include <cstdint>
#include <string>

#include "controller/service/controller.h"
#include "protocol/control.capnp.h"

namespace gangway {

// As `owner` may see it: who runs the controller sees all in full; others only whose the
// programs of other owners are, and what they use. The metrics are left empty.
void write_status(wire::Controller::StatusResults::Builder to, Controller& controller,
                  const std::string& owner, int64_t now_ns);

}  // namespace gangway
