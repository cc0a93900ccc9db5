#include "executor/work/work.h"

#include "runtime/os/doorbell.h"

namespace gangway {

bool Turn::comes(const std::atomic<uint64_t>& word, uint64_t value) const {
  constexpr int kPausesMax = 64;
  for (int i = may_spin ? kPausesMax : 0; i > 0; --i) {
    if (word.load(std::memory_order_acquire) >= value) return true;
    spin_pause();
  }
  return word.load(std::memory_order_acquire) >= value;
}

}  // namespace gangway
