// FreedMemory: wakes waits for a device with some amount of memory free.
//
// Why: every run that ends gives memory back, and most waits want more than that. A release that
// leaves each device with less than any wait wants wakes nobody.
//
// A watch names sizes. Its callback is called when memory is given back so that some device has one
// of these sizes free, and had less before. It is called once; a fiber that has to wait on creates
// another watch.
//
// Threads: the reactor's thread. A callback must neither suspend nor end its watch.
// Ownership: the FreedMemory outlives its watches.
// Cost: grew() is O(log sizes) if it wakes nobody, and nothing if nobody watches.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>

namespace gangway {

class FreedMemory {
 public:
  class Watch {
   public:
    Watch(FreedMemory& freed, const std::set<int64_t>& sizes, std::function<void()> came);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    friend class FreedMemory;
    FreedMemory& freed_;
    const std::function<void()> came_;
  };

  bool is_watched() const { return !by_size_.empty(); }
  // A device had `before` bytes free, and has `now`.
  void grew(int64_t before, int64_t now);

 private:
  void forget(const Watch& watch);

  std::multimap<int64_t, const Watch*> by_size_;
};

}  // namespace gangway
