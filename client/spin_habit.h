// SpinHabit: whether a thread that begins to wait spins before it parks. It spins while that has
// been worth it lately.
//
// Where waits end soon (the result of a small call), a thread that spins goes on at once and leaves
// the other cores to the threads that do the work; elsewhere spinning would only keep a core busy.
// Spinning therefore ends after some long waits in a row, and is tried again in one of many.
//
// Threads: one at a time.
//
// Example:
//   if (habit.begin()) habit.end(spin());  // Whether what it waits for came meanwhile.
#pragma once

#include <cstdint>

namespace gangway::internal {

class SpinHabit {
 public:
  static constexpr uint32_t kInVainMax = 4, kWaitsPerTry = 16;

  // Whether this wait spins.
  bool begin() { return in_vain_ < kInVainMax || ++parked_ % kWaitsPerTry == 0; }
  // A wait that spun has ended.
  void end(bool was_soon) { in_vain_ = was_soon ? 0 : in_vain_ + (in_vain_ < kInVainMax ? 1 : 0); }

 private:
  uint32_t in_vain_ = 0;  // Waits in a row that spun and then parked.
  uint32_t parked_ = 0;   // Waits since then.
};

}  // namespace gangway::internal
