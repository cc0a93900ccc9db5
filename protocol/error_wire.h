// Errors inside frames: Error to frames.capnp's Error and back, part by part.
//
// Threads: pure functions.
// Errors: an unknown kind reads as kBug.
#pragma once

#include "protocol/frames.capnp.h"
#include "runtime/base/error.h"

namespace gangway {

void write_error(wire::Error::Builder to, const Error& error);
Error read_error(wire::Error::Reader from);

}  // namespace gangway
