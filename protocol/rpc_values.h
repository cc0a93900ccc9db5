// The small values of control.capnp to C++ and back. For the *_rpc.cc files of the rooms above.
//
// Threads: pure functions.
#pragma once

#include "protocol/control.capnp.h"
#include "protocol/frames.h"
#include "protocol/machine.h"
#include "protocol/segment_wire.h"
#include "protocol/version.h"

namespace gangway {

inline void write(wire::Version::Builder to, const Version& version) {
  to.setProtocol(version.protocol);
  to.setRelease(version.release);
}
inline Version read(wire::Version::Reader from) {
  return {.protocol = from.getProtocol(), .release = from.getRelease().cStr()};
}

inline void write(wire::Machine::Builder to, const Machine& machine) {
  to.setIdentity(machine.identity);
  to.setHost(machine.host);
}
inline Machine read(wire::Machine::Reader from) {
  return {.identity = from.getIdentity().cStr(), .host = from.getHost().cStr()};
}

}  // namespace gangway
