// Encodes messages as the bytes of frames, and decodes them (frames.capnp).
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

// The streams that send a frame share its bytes (runtime/net/frame.h).
Frame encode(const Message& message);
Message decode(capnp::MessageReader& reader);
Message decode(const Frame& frame);

}  // namespace gangway
