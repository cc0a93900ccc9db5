// Tells a connection that was lost from an error that the peer threw, which may be of the same
// kind.
//
// Threads: pure.
#pragma once

#include <kj/exception.h>

namespace gangway {

// Whether the call failed because its connection was lost. The caller can't know whether the peer
// has executed it.
bool is_lost_connection(const kj::Exception& exception);

}  // namespace gangway
