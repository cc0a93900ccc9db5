// Users of the machine by name.
//
// Threads: any.
// Cost: user_name() reads the system's table of users, which may ask a directory service.
#pragma once

#include <sys/types.h>

#include <string>

namespace gangway {

// "ada" if the system knows a plain name (runtime/base/plain_name.h) for the number, otherwise
// "uid-1000".
std::string user_name(uid_t user);
// Name of the user who runs this process. Looked up once.
const std::string& own_user_name();

}  // namespace gangway
