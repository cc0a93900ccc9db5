#include "executor/devices/cpu/cpu_stream.h"

#include <algorithm>
#include <cstring>

#include "executor/kernels/reduce.h"

namespace gangway {

CpuStream::CpuStream(const std::string& device, Parallel& par, SpinPolicy wait)
    : ThreadedStream(device), par_(par), spin_ns_(wait.spin_ns), idle_spin_ns_(wait.spin_ns) {
  begin_thread([this] { serve(); });
}

void CpuStream::stop() {
  if (end_thread()) queue_.drop();
}

int64_t CpuStream::serve_or_ring(int64_t limit_ns) {
  const int64_t spent_ns = serve_brief(limit_ns);
  if (spent_ns == 0) ring();
  return spent_ns;
}

int64_t CpuStream::serve_brief(int64_t limit_ns) {
  const std::unique_lock at_it(advancing_, std::try_to_lock);
  if (!at_it.owns_lock()) return 0;
  const int64_t brief_ns = queue_.brief_ns(limit_ns);
  if (brief_ns == kNever) return 0;
  Turn turn{.stream = *this, .now_ns = now_ns()};
  queue_.advance(turn);
  return turn.wake_at_ns == kNever ? brief_ns : 0;  // Works that are left wait for a ring.
}

void CpuStream::expect_peers(int device_threads) {
  // The plan with the most device threads decides, also after it has been removed.
  const auto bound = [](std::atomic<int64_t>& spin_ns, int threads) {
    const int64_t wanted = SpinPolicy::for_threads(threads).spin_ns;
    spin_ns.store(std::min(wanted, spin_ns.load(std::memory_order_relaxed)),
                  std::memory_order_relaxed);
  };
  bound(spin_ns_, device_threads);
  bound(idle_spin_ns_, device_threads + 1);  // With the reactor that brings the next run.
}

int64_t CpuStream::spin_ns(Progress progress) const {
  return (progress == Progress::kDone ? idle_spin_ns_ : spin_ns_).load(std::memory_order_relaxed);
}

void CpuStream::copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

void CpuStream::check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) {
  if (!all_finite(par_, dtype, data, elements)) *flag = 1;
}

Progress CpuStream::advance(Turn& turn) {
  const std::lock_guard at_it(advancing_);
  turn.now_ns = now_ns();  // Read after the lock: time of the reactor's work is not this turn's.
  return queue_.advance(turn);
}

void CpuStream::serve() {
  while (!stopping()) {
    Doorbell& bell = this->bell();
    const uint32_t ticket = bell.ticket();
    const bool may_spin = spin_ns(Progress::kPending) > 0;
    Turn turn{.stream = *this, .now_ns = 0, .may_spin = may_spin};
    const Progress progress = advance(turn);
    if (stopping()) break;
    const int64_t limit_ns = progress == Progress::kPending && turn.wake_at_ns != kNever
                                 ? std::max<int64_t>(0, turn.wake_at_ns - now_ns())
                                 : -1;
    bell.wait(ticket, {"device", spin_ns(progress)}, limit_ns);
  }
}

}  // namespace gangway
