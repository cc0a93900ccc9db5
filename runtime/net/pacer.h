// Pacer: gives the work of a simulated process its time on the virtual clock. A real process has no
// pacer.
//
// A process does one thing at a time. Code that works for the process reports what it is about to
// do, and is suspended until the process has got to it. A stopped process suspends all of them.
// Threads: the reactor's thread; calls that begin with "Suspends." may wait.
// Ownership: outlives the streams and services that use it.
#pragma once

#include <cstddef>

namespace gangway {

class Pacer {
 public:
  virtual ~Pacer() = default;
  // Called around the handling of a frame. begin_frame() suspends.
  virtual void begin_frame(size_t bytes) = 0;
  virtual void end_frame() = 0;
  // Called before frames are written in one system call. Suspends.
  virtual void write(size_t frames, size_t bytes) = 0;
  // Called before the host-side work for this many calls of a run. Suspends.
  virtual void prepare_calls(size_t calls) = 0;
  // Called before a program of this many nodes is compiled on another thread. Suspends for as long
  // as compiling takes.
  virtual void compile(size_t nodes) = 0;
  // Called when a timer of the process is due. Suspends.
  virtual void wake() = 0;
};

}  // namespace gangway
