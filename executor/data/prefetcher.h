// Keeps the next few batches of a data source ready, filled by a thread of its own.
//
// A source is a pure function of the position, so a batch that is not ready is simply filled by
// whoever asks: take() never waits for the thread, and what it gives never depends on timing.
//
// Invariants: at most `depth` batches are held; the thread works on the positions that follow the
// last one taken, so a jump (a resumed run, a replay) costs one miss.
//
// Threads: take() anywhere; `fill` is called from the worker and from takers, at the same time.
// Ownership: memory for `depth` batches, made at once; what `fill` refers to must outlive this.
// Errors: take() throws what `fill` throws; an error met ahead of time is met again then.
// Cost: a hit is one copy under a lock.
//
//   Prefetcher ahead({.tokens = 32 * 128}, 0,
//                    [&](uint64_t p, std::span<int32_t> out) { windows.fill(p, rows, out); });
//   ahead.take(577, tokens);
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/thread.h"

namespace gangway {

class Prefetcher {
 public:
  using Fill = std::function<void(uint64_t position, std::span<int32_t> out)>;

  struct Options {
    size_t tokens = 0;  // Of one batch, or of one shard of it.
    int depth = 4;
    std::string thread_name = "prefetch";
  };

  struct Counts {
    uint64_t hits = 0;
    uint64_t misses = 0;
  };

  // `first`: the position that will be asked for first.
  Prefetcher(Options options, uint64_t first, Fill fill);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // out: i32[tokens] of that position.
  void take(uint64_t position, std::span<int32_t> out);

  Counts counts() const;

 private:
  // The batch of position p lies in slot p % depth.
  struct Slot {
    uint64_t position = 0;
    bool ready = false;
    std::vector<int32_t> tokens;
  };

  void serve();
  bool copy_if_ready(uint64_t position, std::span<int32_t> out);

  const Options options_;
  const Fill fill_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::vector<Slot> slots_;
  uint64_t wanted_;     // The position that is expected next.
  uint64_t next_fill_;  // The position that the worker takes up next.
  Counts counts_;
  bool stopping_ = false;
  Thread worker_;  // Last: it ends before what it uses.
};

}  // namespace gangway
