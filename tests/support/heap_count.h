// What this program asks and holds of the heap: counted by an operator new and delete of its own,
// which a program gets that links gw_heap_count. Blocks of malloc() and those of a larger alignment
// are not counted. Cap'n Proto's segments are among them; no table of the controller keeps one.
//
// Threads: any. Cost: a few nanoseconds a block.
#pragma once

#include <cstdint>

namespace gangway {

// Bytes of all blocks that were allocated and not freed, as large as the system made them.
int64_t heap_bytes();
// The most that it was since the last restart.
int64_t heap_peak_bytes();
void restart_heap_peak();
// Bytes of all blocks so far, those that were freed too.
int64_t heap_bytes_allocated();
// Blocks that the calling thread allocated so far.
int64_t heap_blocks_of_thread();

}  // namespace gangway
