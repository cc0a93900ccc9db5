// Limits on the length of texts that one peer creates and that the controller passes on to others.
//
// A stream gives up a peer for which tens of MiB wait. A client's texts must therefore not fill the
// streams of its hosts, nor the name of one client the stream of another. Each text of an error is
// cut to the limit when it is encoded (error_wire.h); longer names are refused.
#pragma once

#include <cstddef>

namespace gangway {

inline constexpr size_t kTextBytesMax = 4096;
inline constexpr size_t kContextLinesMax = 16;  // Lines of one error.
inline constexpr size_t kQuotedBytesMax = 256;  // Bytes of a name that a message quotes.
// Limit on a program's name. It is longer than a name that was cut to kQuotedBytesMax and has the
// words that say so and a number behind it.
inline constexpr size_t kProgramNameBytesMax = 512;

}  // namespace gangway
