// How long the texts are that one peer makes and others are told.
//
// Streams give up a peer for which tens of MiB wait, so what a client says must not fill its hosts'
// streams, nor what one client is called another's. Each text of an error is cut to so many bytes
// when it is encoded (error_wire.h); longer names are refused.
#pragma once

#include <cstddef>

namespace gangway {

inline constexpr size_t kTextBytesMax = 4096;
inline constexpr size_t kContextLinesMax = 16;  // Lines of one error.
inline constexpr size_t kQuotedBytesMax = 256;  // Bytes of a name that a message quotes.
// Of a program's name. It is longer than a name that was cut to kQuotedBytesMax, with the words
// that say so and a number behind it.
inline constexpr size_t kProgramNameBytesMax = 512;

}  // namespace gangway
