// Copies from a card's memory to the shared memory of a block that overlap with the thread's
// computation; from sm_80 on.
//
// Data that a thread copies is visible to it after its wait(), and to other threads after a barrier
// that follows. The emulator writes NaN at once and the data only in wait(): a thread that reads
// too early finds NaN, and one that copies over data that others still read is reported as a race.
//
// Example:
//   AsyncCopies copies;
//   copies.add(panel, matrix, true);
//   copies.wait();
//   sync_block();
#pragma once

#include "executor/devices/cuda/kernels/kernel_source.h"

#ifndef __CUDACC__
#include <vector>
#endif

namespace gangway::cuda {

constexpr int32_t kEight = 8;  // bf16 of one access to memory.
struct alignas(16) Eight {
  uint32_t words[4];
};

#ifdef __CUDACC__

struct AsyncCopies {
  // Copies eight elements, 16 bytes aligned; unless `there`, reads nothing and writes zeros.
  GW_DEVICE void add(Shared<bf16> to, Global<const bf16> from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
  }
  // Copies 16 bytes of elements of any type.
  GW_DEVICE void add(Shared<Eight> to, Global<const Eight> from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
  }
  // Copies one number; unless `there`, writes 0.
  GW_DEVICE void add(Shared<float> to, Global<const float> from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(there ? 4 : 0)
                 : "memory");
  }
  // Waits for all copies that this thread has added.
  GW_DEVICE void wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

 private:
  GW_DEVICE static uint32_t shared_address(const void* at) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(at));
  }
};

#else

class AsyncCopies {
 public:
  void add(Shared<bf16> to, Global<const bf16> from, bool there) {
    eights_.add(as_vectors<Eight>(to), as_vectors<const Eight>(from), there, kNaNs);
  }
  void add(Shared<Eight> to, Global<const Eight> from) { eights_.add(to, from, true, kNaNs); }
  void add(Shared<float> to, Global<const float> from, bool there) {
    numbers_.add(to, from, there, not_a_number<float>());
  }
  void wait() {
    eights_.wait();
    numbers_.wait();
  }

 private:
  template <class T>
  struct Copies {
    struct Copy {
      Shared<T> to;
      Global<const T> from;
      bool there;
    };
    std::vector<Copy> under_way;

    void add(Shared<T> to, Global<const T> from, bool there, const T& meanwhile) {
      to[0] = meanwhile;
      under_way.push_back({to, from, there});
    }
    void wait() {
      for (const Copy& copy : under_way) {
        T value = {};
        if (copy.there) value = copy.from[0];
        copy.to[0] = value;
      }
      under_way.clear();
    }
  };

  static constexpr Eight kNaNs = {{~0u, ~0u, ~0u, ~0u}};  // NaN in every type of floats.

  Copies<Eight> eights_;
  Copies<float> numbers_;
};

#endif

}  // namespace gangway::cuda
