// What this program holds of the heap: counted by a operator new and delete of its own.
//
// Threads: any. Cost: a few nanoseconds a block.
#pragma once

#include <cstdint>

namespace gangway {

// Bytes of all blocks that were allocated and not freed, as large as the system made them.
int64_t heap_bytes();

}  // namespace gangway
