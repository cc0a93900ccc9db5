// What to do where the system refuses more of something: files, their sizes, memory, processes.
//
// Threads: a pure function.
#pragma once

#include <string>

namespace gangway {

// For an errno that says so, which limit to raise; empty for all others.
std::string limit_hint(int number);

}  // namespace gangway
