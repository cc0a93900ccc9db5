// Errors inside frames: converts between Error and frames.capnp's Error, part by part.
//
// An error that a peer sent is passed on to others: each text is cut to kTextBytesMax bytes
// (text_limits.h), so that no reason, however long, fills a stream.
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
