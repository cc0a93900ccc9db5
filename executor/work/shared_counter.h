// SharedCounter: a number that one thread changes and any thread may read: the progress of some
// work.
//
// It orders no other memory: a reader learns the number alone, perhaps a little late.
// Threads: assignment and ++ by one thread at a time; reading anywhere.
// Cost: the same as a plain integer.
#pragma once

#include <atomic>
#include <cstdint>

namespace gangway {

class SharedCounter {
 public:
  SharedCounter() = default;
  SharedCounter(const SharedCounter& other) : value_(other) {}
  SharedCounter& operator=(const SharedCounter& other) { return *this = uint32_t{other}; }
  SharedCounter& operator=(uint32_t value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  SharedCounter& operator++() { return *this = *this + 1; }
  operator uint32_t() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> value_{0};
};

}  // namespace gangway
