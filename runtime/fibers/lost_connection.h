// Tells a connection that was lost from an error that the peer threw, which may be of the same
// kind.
//
// Threads: pure.
#pragma once

#include <kj/exception.h>

namespace gangway {

// Whether the call failed with its connection: nobody knows whether the peer has done it.
bool is_lost_connection(const kj::Exception& exception);

}  // namespace gangway
