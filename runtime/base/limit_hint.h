// Hints for users when the system refuses more files, larger files, more memory or more processes.
//
// Threads: a pure function.
#pragma once

#include <string>

namespace gangway {

// Names the limit to raise, for an errno that means a limit was reached. Empty for other numbers.
std::string limit_hint(int number);

}  // namespace gangway
