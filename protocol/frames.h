// Messages to the bytes of frames and back (frames.capnp).
//
// Threads: pure functions.
// Errors: decode() throws kInvalid on anything malformed; lists are bounded by the bytes that came.
// Cost: 1-2 us to encode or decode a run of a few arguments.
//
// Example:
//   stream.send(encode(CancelFrame{run, error}));
//   Message message = decode(reader);
#pragma once

#include "protocol/messages.h"
#include "runtime/net/frame.h"

namespace gangway {

// A frame is the bytes (runtime/net/frame.h), shared by every stream that sends it.
Frame encode(const Message& message);
Message decode(capnp::MessageReader& reader);
Message decode(const Frame& frame);

}  // namespace gangway
