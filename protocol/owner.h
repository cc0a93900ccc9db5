// Owners: the users whom a cluster distinguishes, to limit what each may use. An owner is a person,
// a team or a service, and has a plain name.
//
// The controller takes the owner of each connection from the network (runtime/net/server.h), never
// from what the peer says of itself: the user at the other end of a Unix socket; over TCP the owner
// whom its certificate names or, without TLS, whose token it shows.
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
