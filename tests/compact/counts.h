// What a piece of work took, in steps and in memory: the same on every machine, however busy.
//
// A step is a piece of straight code in ir/ or controller/lowering that began; this test program
// has a build of both in which each of them calls a function that counts. What the C++ library
// does inside of its own code is no step; what it copies shows in the bytes that were asked for.
//
// Threads: counts are of the whole process; one thread.
#pragma once

#include <cstdint>

namespace gangway::compact {

struct Counts {
  uint64_t steps = 0;
  uint64_t bytes = 0;       // Asked for, in all.
  uint64_t peak_bytes = 0;  // Held at once, beyond what was held before.
};

class Counter {
 public:
  Counter();  // Begins now.
  Counts take() const;

 private:
  uint64_t steps_;
  int64_t allocated_, held_;  // Bytes.
};

}  // namespace gangway::compact
