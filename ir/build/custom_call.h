// Kernels of the user's own: a function of a shared library as a node of a graph.
//
// Why: a user whom the op set does not serve should not need another build of Gangway. The program
// carries the library's path and the hash of its content; an executor loads the library when a plan
// is installed, and refuses a file of another content, so the code that runs is the code that the
// program was written with. The result is not cut over a mesh, and has no gradient.
//
// Trust: an executor loads libraries from folders that it was told to trust only (`gangway executor
// --trust DIR`), by the content that they had when it was started; one of a local cluster, which
// ends with its client, loads any file of its user's.
// Threads: pure, but for reading the file.
// Errors: those of durable_file.h for a file that can't be read; a missing file or symbol on the
// executor's side is an error of compile().
//
// Example:
//   Value y = custom_call(user_kernel("libmine.so", "halve"), {x}, x.type());  // user_kernel.h
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/build/value.h"

namespace gangway {

struct UserKernel {
  std::string path;     // Absolute: executors have other working folders.
  std::string library;  // The content hash.
  std::string symbol;
};

// Describes the library's current content.
UserKernel user_kernel(const std::string& path, const std::string& symbol);

// At least one input.
Value custom_call(const UserKernel& kernel, const std::vector<Value>& inputs, const Type& result,
                  Loc loc = Loc::current());

// The bytes of a library.
std::string read_library(const std::string& path);

}  // namespace gangway
