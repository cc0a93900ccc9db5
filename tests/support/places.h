// Where a test program finds what it reads and starts: the build tree that it lies in, and the tree
// of sources that this was configured from. Both are found when the program runs. Paths among its
// definitions would make the compiler cache miss in every other clone.
//
// Threads: any.
// Errors: kInvalid where the program lies in no build tree, or CMake has no such variable.
#pragma once

#include <string>
#include <string_view>

namespace gangway::tests {

// The nearest folder above the running program that CMake configured.
std::string build_folder();
std::string source_folder();
// `gangway`, as the build tree has it.
std::string gangway_tool();
// A kernel in C that a user could have built (tests/custom_call).
std::string user_kernel();
// A value of the build tree's CMakeCache.txt, such as a program that find_program() found.
std::string cmake_variable(std::string_view name);

}  // namespace gangway::tests
