// The status of a controller's hosts and programs, in the wire form that Client::status() reads.
//
// Threads: the reactor's thread.
#pragma once

#include <cstdint>
#include <string>

#include "controller/controller.h"
#include "protocol/control.capnp.h"

namespace gangway {

// Writes what `owner` may see. The user who runs the controller sees all in full. Others see of the
// programs of other owners only whose they are and what they use. The metrics are left empty.
void write_status(wire::Controller::StatusResults::Builder to, Controller& controller,
                  const std::string& owner, int64_t now_ns);

}  // namespace gangway
