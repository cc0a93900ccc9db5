// Locates the files that a test program reads and starts: in the build tree that contains the
// program, and in the source tree that the build tree was configured from. Both are found when the
// program runs. If they were compiled in as definitions, the compiler cache would miss in every
// other clone.
//
// Threads: any.
// Errors: kInvalid if the program lies in no build tree, or CMake has no such variable.
#pragma once

#include <string>
#include <string_view>

namespace gangway::tests {

// The nearest folder above the running program that CMake configured.
std::string build_folder();
std::string source_folder();
// Path of the build tree's `gangway`.
std::string gangway_tool();
// Path of a kernel in C that stands for one that a user has built (tests/custom_call).
std::string user_kernel();
// A value of the build tree's CMakeCache.txt, such as a program that find_program() found.
std::string cmake_variable(std::string_view name);

}  // namespace gangway::tests
