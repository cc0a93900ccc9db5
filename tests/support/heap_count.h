// Counts the heap blocks that this program allocates and holds. A program that links gw_heap_count
// gets an operator new and delete that count. Blocks of malloc() and blocks of a larger alignment
// are not counted. Cap'n Proto's segments are among the uncounted blocks; no table of the
// controller keeps one.
//
// Threads: any. Cost: a few nanoseconds a block.
#pragma once

#include <cstdint>

namespace gangway {

// Bytes of all blocks that are allocated and not freed, at the sizes that the allocator gave them.
int64_t heap_bytes();
// The largest heap_bytes() since restart_heap_peak() was last called.
int64_t heap_peak_bytes();
void restart_heap_peak();
// Bytes of all blocks allocated so far, including freed ones.
int64_t heap_bytes_allocated();
// Number of blocks that the calling thread has allocated so far.
int64_t heap_blocks_of_thread();

}  // namespace gangway
