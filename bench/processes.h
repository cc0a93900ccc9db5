// Memory and processor time that the processes of a local cluster use, as the system counts them.
//
// Units: bytes, seconds. Processor times of other processes come in ticks of 10 ms, except those of
// Effort. A process's main thread is its reactor: it runs no kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gangway::bench {

struct ProcessUse {
  std::string command;  // Its arguments, separated by spaces.
  int64_t peak_bytes = 0;
  double cpu_s = 0;       // Processor time of all its threads.
  double main_cpu_s = 0;  // Processor time of its main thread.
};

// Use of the programs that this process has started and that still run.
std::vector<ProcessUse> children_use();
// Processor time of this process.
double own_cpu_s();

// Work so far of the threads of this process, and of the programs that it has started; ended
// threads are left out. Other load on the machine changes neither number much.
struct Effort {
  double cpu_us = 0;  // Exact to the nanosecond.
  double waits = 0;   // How often a thread gave up its core to wait; each time something wakes it.
};
Effort effort();

}  // namespace gangway::bench
