// Address: base and offset of a tensor of a compiled function, before a run sets the buffers.
//
// Threads: a value.
#pragma once

#include <cstdint>

namespace gangway {

struct Address {
  uint32_t base = 0;   // Index into CallFrame::bases.
  int64_t offset = 0;  // In bytes.
};

}  // namespace gangway
