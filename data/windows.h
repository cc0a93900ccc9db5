// Batches of token windows cut from a text: shuffled ones for training, sequential ones for
// measurements.
//
// A batch is i32[batch, seq], one byte a token. Its bytes are a pure function of (text, options,
// position): training resumes exactly at any position, and a host fills only the rows and tokens of
// its own devices.
//
// Invariants of ShuffledWindows: an epoch cuts the text, from an offset of its own, into windows
// that do not overlap, and visits each of them once; a batch may straddle two epochs.
//
// Invariants of SequentialWindows: neighbours share one byte, so that each byte but the first is
// predicted once. Only the last window is moved back to end with the text, and the last batch is
// filled up from the start.
//
// Threads: values after construction; fill() is safe from any thread.
// Ownership: the text must outlive them.
// Errors: kInvalid for a text shorter than one window.
// Cost: O(bytes filled); no memory.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gangway {

struct WindowOptions {
  int seq = 0;
  int batch = 0;
  uint64_t seed = 0;  // Seed of the shuffle; sequential windows ignore it.
};

// Rows begin .. end-1 of a batch, or tokens begin .. end-1 of each row.
struct IndexRange {
  int begin = 0;
  int end = 0;
};

class ShuffledWindows {
 public:
  ShuffledWindows(std::string_view text, const WindowOptions& options);

  uint64_t windows_per_epoch() const { return windows_; }
  // Offset in the text at which row `row` of batch `position` starts.
  uint64_t start(uint64_t position, int row) const;
  // out: i32[rows.end - rows.begin, tokens.end - tokens.begin], of batch number `position`.
  void fill(uint64_t position, IndexRange rows, IndexRange tokens, std::span<int32_t> out) const;

 private:
  std::string_view text_;
  WindowOptions options_;
  uint64_t windows_;
  uint64_t offsets_;  // Number of offsets that an epoch chooses from.
};

class SequentialWindows {
 public:
  SequentialWindows(std::string_view text, const WindowOptions& options);

  uint64_t windows() const { return windows_; }
  uint64_t batches() const;
  uint64_t start(uint64_t position, int row) const;
  // The same as ShuffledWindows::fill(); position < batches().
  void fill(uint64_t position, IndexRange rows, IndexRange tokens, std::span<int32_t> out) const;

 private:
  std::string_view text_;
  WindowOptions options_;
  uint64_t windows_;
};

}  // namespace gangway
