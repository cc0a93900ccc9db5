// Pacer: gives the work of a simulated process its time on the virtual clock. A real process has
// none: its work takes the time that it takes.
//
// A process does one thing at a time. Whoever works for it says what it is about to do, and is held
// up until the process has come to it; a process that stands still holds up everybody.
// Threads: the reactor's thread; calls that begin with "Suspends." may wait.
// Ownership: outlives the streams and services that it was given to.
#pragma once

#include <cstddef>

namespace gangway {

class Pacer {
 public:
  virtual ~Pacer() = default;
  // Around the handling of a frame of so many bytes. Suspends.
  virtual void begin_frame(size_t bytes) = 0;
  virtual void end_frame() = 0;
  // Before frames are written, in one call of the system. Suspends.
  virtual void write(size_t frames, size_t bytes) = 0;
  // Before the host-side work for so many calls of a run. Suspends.
  virtual void prepare_calls(size_t calls) = 0;
  // Before a program of so many nodes is compiled, beside all else. Suspends as long as it takes.
  virtual void compile(size_t nodes) = 0;
  // A timer of the process is due. Suspends.
  virtual void wake() = 0;
};

}  // namespace gangway
