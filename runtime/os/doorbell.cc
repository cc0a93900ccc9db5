#include "runtime/os/doorbell.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/fiber/detail/cpu_relax.hpp>
#include <cstdint>
#include <utility>

#include "runtime/base/clock_ns.h"
#include "runtime/os/thread.h"

namespace gangway {
namespace {

// Not the PRIVATE operations: the word may be shared between processes.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, const timespec* limit) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, expected, limit, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr,
          0);
}

constexpr int64_t kYieldAfterNs = 25'000;
// A waiter that did not get its core back for this long shares it with other threads, and parks.
constexpr int64_t kTakenNs = 20'000;
constexpr int kPausesPerLook = 64;  // Pauses between two readings of the clock.

}  // namespace

SpinPolicy SpinPolicy::for_threads(int threads) {
  return threads > available_cores() ? park() : spin_then_park();
}

void spin_pause() { cpu_relax(); }

void Doorbell::ring() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst) != 0) futex_wake_all(rings_);
}

Doorbell::Spun Doorbell::spin(uint32_t ticket, int64_t spin_ns) {
  const auto rung = [&] { return rings_.load(std::memory_order_seq_cst) != ticket; };
  const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
  for (int64_t now_ns = start_ns; now_ns - start_ns < spin_ns;) {
    // The thread that rings may be waiting for this core.
    const bool offers_core = now_ns - start_ns >= kYieldAfterNs;
    if (offers_core) sched_yield();
    int looks = kPausesPerLook;
    while (!rung() && --looks > 0) spin_pause();
    if (looks > 0 && !offers_core) return {true, true};
    const int64_t before_ns = std::exchange(now_ns, clock_ns(CLOCK_MONOTONIC));
    const bool is_taken = now_ns - before_ns > kTakenNs;
    if (looks > 0 || is_taken) return {rung(), !is_taken};
  }
  return {};
}

bool Doorbell::wait(uint32_t ticket, SpinPolicy policy, int64_t time_limit_ns) {
  const auto rung = [&] { return rings_.load(std::memory_order_seq_cst) != ticket; };
  if (rung()) return true;
  const int64_t limit_ns =
      time_limit_ns < 0 ? INT64_MAX : clock_ns(CLOCK_MONOTONIC) + time_limit_ns;
  const int64_t spin_ns =
      time_limit_ns < 0 ? policy.spin_ns : std::min(policy.spin_ns, time_limit_ns);
  if (spin_ns > 0 && spin(ticket, spin_ns).is_rung) return true;
  parked_.fetch_add(1, std::memory_order_seq_cst);
  while (!rung()) {
    timespec limit{};
    if (time_limit_ns >= 0) {
      const int64_t left_ns = limit_ns - clock_ns(CLOCK_MONOTONIC);
      if (left_ns <= 0) break;
      limit = {left_ns / 1'000'000'000, left_ns % 1'000'000'000};
    }
    futex_wait(rings_, ticket, time_limit_ns >= 0 ? &limit : nullptr);
  }
  parked_.fetch_sub(1, std::memory_order_seq_cst);
  return rung();
}

}  // namespace gangway
