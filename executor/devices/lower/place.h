// Place: where a tensor of a compiled function lies, before a run says where its buffers are.
//
// Threads: a value.
#pragma once

#include <cstdint>

namespace gangway {

struct Place {
  uint32_t base = 0;   // Index into CallFrame::bases.
  int64_t offset = 0;  // In bytes.
};

}  // namespace gangway
