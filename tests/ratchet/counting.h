// Marks for callgrind, which counts the instructions of each function: it counts those that run
// while a Counted lives. Without valgrind the marks do nothing.
//
// Threads: one.
//
// Example:
//   const Case runs("controller, 4 hosts, 1 client", 10);
//   for (int run = 0; run < 10; ++run) {
//     const Counted counted;
//     controller.on_message(session, decode(frame));
//   }
#pragma once

#include <valgrind/callgrind.h>

#include <string>

namespace ratchet {

// The destructor writes the counts of this case, with its name and the number of its runs.
class Case {
 public:
  Case(const std::string& name, int runs) : label_(name + " / " + std::to_string(runs)) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
  }
  ~Case() {
    CALLGRIND_DUMP_STATS_AT(label_.c_str());
    CALLGRIND_STOP_INSTRUMENTATION;
  }
  Case(const Case&) = delete;

 private:
  const std::string label_;
};

class Counted {
 public:
  Counted() { CALLGRIND_TOGGLE_COLLECT; }
  ~Counted() { CALLGRIND_TOGGLE_COLLECT; }
  Counted(const Counted&) = delete;
};

}  // namespace ratchet
