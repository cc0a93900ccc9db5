// Thread: a named operating system thread, joined when the handle dies; the only way to start one
// outside this room.
//
// The name (at most 15 bytes are kept) is what top, gdb and the trace show.
// Threads: the handle belongs to the thread that created it.
// Errors: an exception of the body is kept and thrown by join(); if nobody joins it is printed to
// standard error. kOverloaded when the system refuses a thread.
// Cost: 40 us to start and join one, so threads are meant for the life of a device or a reactor.
//
// Example:
//   Thread thread("device-0", [&] { device.serve(); });
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "runtime/base/error.h"

namespace gangway {

class Thread {
 public:
  Thread() = default;
  Thread(std::string name, std::function<void()> body);
  Thread(Thread&&) = default;
  // Joins the thread that this handle held, and so throws like join().
  // NOLINTNEXTLINE(performance-noexcept-move-constructor)
  Thread& operator=(Thread&& other);
  ~Thread();

  bool joinable() const { return thread_.joinable(); }
  // Blocks this thread until the body has returned; throws its error.
  void join();

 private:
  struct State {
    std::string name;
    std::function<void()> body;
    std::optional<Error> error;
  };
  static void run(State& state);

  std::unique_ptr<State> state_;
  std::thread thread_;
};

// Names the calling thread, also in the trace.
void set_thread_name(const std::string& name);
std::string thread_name();

// Cores that this process may run on (its affinity mask), at least 1.
int available_cores();

}  // namespace gangway
