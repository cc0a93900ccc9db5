// Owners: who may use what of a cluster. A person, a team, a service: a plain name.
//
// The controller knows the owner of each connection by the network (runtime/net/server.h), never by
// what the peer says of itself: the user at the other end of a Unix socket, who connected over TCP.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <string_view>

#include "runtime/base/plain_name.h"

namespace gangway {

inline constexpr size_t kOwnerBytesMax = kPlainNameBytesMax;

// Whether it is 1 to kOwnerBytesMax letters, digits, '-', '_' and '.'.
inline bool is_owner_name(std::string_view name) { return is_plain_name(name); }

}  // namespace gangway
