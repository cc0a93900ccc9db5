// What the processes of a local cluster use, as the system counts it: memory and processor time.
//
// Units: bytes, seconds. Processor times of other processes come in ticks of 10 ms, but for those
// of Effort. A process's main thread is its reactor: it runs no kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gangway::bench {

struct ProcessUse {
  std::string command;  // Its arguments, separated by spaces.
  int64_t peak_bytes = 0;
  double cpu_s = 0;       // Of all its threads.
  double main_cpu_s = 0;  // Of its main thread.
};

// Of the programs that this process has started and that still run.
std::vector<ProcessUse> children_use();
// Of this process.
double own_cpu_s();

// What the threads of this process, and of the programs that it has started, have done so far;
// threads that have ended are left out. Both count what a machine that is busy with other things
// does not change much.
struct Effort {
  double cpu_us = 0;  // To the nanosecond.
  double waits = 0;   // How often one gave up its core to wait; something then wakes it.
};
Effort effort();

}  // namespace gangway::bench
