// Doorbell: one thread parks until another, perhaps in another process, rings.
//
// A waiter spins first and then parks: a ring that comes while it still spins costs 0.1-0.3 us,
// waking a parked thread 5-45 us. A named policy says how long to spin: not at all where threads
// outnumber cores, since the spinner would hold the core that the ringer needs. A waiter that has
// spun for some microseconds yields its core to threads that wait for it, and parks if one takes
// it.
//
// Example (the waiter):
//   const uint32_t ticket = bell.ticket();
//   if (!work()) bell.wait(ticket, policy);
//
// Example (the ringer):
//   publish(work);
//   bell.ring();
//
// A ring after ticket() is never missed. All-zero memory is a valid doorbell, so a doorbell may be
// placed in shared memory.
//
// Threads: any number of ringers and waiters, any thread or process that maps it.
// Cost: ring 5 ns when nobody is parked (one atomic add and a load), else one system call.
#pragma once

#include <atomic>
#include <cstdint>

namespace gangway {

// How long to spin before parking.
struct SpinPolicy {
  const char* name;
  int64_t spin_ns;

  // Parks at once: right when threads outnumber cores.
  static constexpr SpinPolicy park() { return {"park", 0}; }
  // Spins about twice as long as waking a parked thread costs, so that the wait is never much worse
  // than with the better choice.
  static constexpr SpinPolicy spin_then_park() { return {"spin_then_park", 50'000}; }
  // park() when `threads` threads that may wait on one another outnumber this process's cores.
  static SpinPolicy for_threads(int threads);
};

class Doorbell {
 public:
  // The argument for wait(). Take it before looking for work.
  uint32_t ticket() const { return rings_.load(std::memory_order_seq_cst); }

  void ring();

  // Returns once a ring has come after `ticket` was taken, or false when `time_limit_ns` have
  // passed (negative: none).
  bool wait(uint32_t ticket, SpinPolicy policy, int64_t time_limit_ns = -1);

  // Spins without parking, for at most `spin_ns`, and only while no other thread wants the core.
  // Returns whether a ring came, and whether it was worth spinning for.
  struct Spun {
    bool is_rung = false, is_worth_it = false;
  };
  Spun spin(uint32_t ticket, int64_t spin_ns);

 private:
  std::atomic<uint32_t> rings_{0};
  std::atomic<uint32_t> parked_{0};
};

static_assert(std::atomic<uint32_t>::is_always_lock_free, "a doorbell works between processes");

// Tells the core that this is a spin loop.
void spin_pause();

}  // namespace gangway
