// Unpredictable bytes from the system, for keys and tokens. All other randomness comes from a seed
// (runtime/base/rng.h).
//
// Threads: any.
// Errors: kUnavailable when the system gives none.
// Cost: a system call.
#pragma once

#include <cstddef>
#include <span>

namespace gangway {

void fill_random(std::span<std::byte> bytes);

}  // namespace gangway
