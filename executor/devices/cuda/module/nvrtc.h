// Compiles a source to a binary for one architecture; needs no GPU.
//
// The headers that sources include are part of the module.
// Threads: any.
// Errors: kInvalid with the compiler's words.
// Cost: 50 ms and more; with a folder, binaries are kept there under a hash of everything that was
// compiled. A kept one that can't be read is compiled again, and replaced.
#pragma once

#include <string>
#include <vector>

#include "executor/devices/cuda/driver/calls.h"
#include "runtime/base/result.h"

namespace gangway::cuda {

// "sm_90a" for 90: only with the "a" does the compiler offer all instructions.
std::string architecture_name(uint32_t architecture);

Result<std::vector<char>> compile_cubin(const ModuleSource& source, uint32_t architecture,
                                        const std::string& folder);

}  // namespace gangway::cuda
