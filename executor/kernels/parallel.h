// The cores of one CPU device, and the fixed partition of work over them.
//
// Every kernel takes one. With one thread the work runs inline on the caller and costs nothing.
//
// Invariants: which chunk a thread runs never changes a result: a kernel whose rounding depends on
// a partition derives that partition from shapes alone (sum over fixed chunks, then over chunks in
// order), never from threads().
//
// Threads: one caller at a time (a device's own thread); chunks run on it and on workers of a
// private TBB arena, whose threads may call oneDNN (it is limited to one thread in each). Bodies
// must not throw and must not suspend a fiber.
// Cost: about 0.1-2 us a call with two threads and warm workers.
//
// Example:
//   Parallel par(2);
//   par.for_each_chunk(8, [&](int64_t chunk) { sum(chunk); });  // Each once, in any order.
//   par.for_each_range(n, 1024, [&](int64_t begin, int64_t end) { sum(begin, end); });
//
// Every `begin` is a multiple of 1024 here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "executor/kernels/isa.h"
#include "runtime/base/align.h"

namespace gangway {

namespace simd {
struct Table;
}

class Parallel {
 public:
  explicit Parallel(int threads = 1, KernelIsa isa = detect_isa());
  ~Parallel();
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;

  int threads() const { return threads_; }
  KernelIsa isa() const { return isa_; }
  const simd::Table& simd() const { return simd_; }

  // body(chunk) for each chunk in [0, chunks); a thread takes a contiguous range of them.
  template <class Body>
  void for_each_chunk(int64_t chunks, const Body& body) {
    const int64_t parts = std::min<int64_t>(threads_, chunks);
    if (parts <= 1) {
      for (int64_t c = 0; c < chunks; ++c) body(c);
      return;
    }
    auto part = [&](int64_t p) {
      for (int64_t c = chunks * p / parts; c < chunks * (p + 1) / parts; ++c) body(c);
    };
    run(
        parts, [](const void* f, int64_t p) { (*static_cast<const decltype(part)*>(f))(p); },
        &part);
  }

  // body(begin, end) over [0, n), at most threads() pieces, each but the last a multiple of `grain`
  // long. For work whose result does not depend on the cuts.
  template <class Body>
  void for_each_range(int64_t n, int64_t grain, const Body& body) {
    if (n <= 0) return;
    const int64_t grains = ceil_div(n, grain);
    const int64_t parts = std::min<int64_t>(threads_, grains);
    for_each_chunk(parts, [&](int64_t p) {
      body(grains * p / parts * grain, std::min(n, grains * (p + 1) / parts * grain));
    });
  }

 private:
  struct Arena;
  void run(int64_t parts, void (*call)(const void*, int64_t), const void* body);

  int threads_;
  KernelIsa isa_;
  const simd::Table& simd_;
  std::unique_ptr<Arena> arena_;  // None with one thread.
};

}  // namespace gangway
