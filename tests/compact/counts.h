// Counts the steps and the memory of a piece of work, which are the same on every machine, however
// busy.
//
// A step is one execution of a basic block in ir/ or controller/lowering; this test program links a
// build of both in which each block calls a function that counts. Code inside the C++ library
// counts no steps; its copies show in the bytes that were allocated.
//
// Threads: counts are of the whole process; one thread.
#pragma once

#include <cstdint>

namespace gangway::compact {

struct Counts {
  uint64_t steps = 0;
  uint64_t bytes = 0;       // Bytes allocated in all.
  uint64_t peak_bytes = 0;  // Most bytes held, beyond those held before.
};

class Counter {
 public:
  Counter();  // Counts from now on.
  Counts take() const;

 private:
  uint64_t steps_;
  int64_t allocated_, held_;  // Bytes.
};

}  // namespace gangway::compact
