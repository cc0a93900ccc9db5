#include "executor/kernels/parallel.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "executor/kernels/simd/simd.h"
#include "runtime/base/error.h"

namespace gangway {

struct Parallel::Arena {
  explicit Arena(int threads) : tbb(threads) {}
  tbb::task_arena tbb;
};

Parallel::Parallel(int threads, KernelIsa isa)
    : threads_(threads), isa_(std::min(isa, machine_isa())), simd_(simd::table(isa_)) {
  GW_REQUIRE(threads >= 1, "device: threads must be positive: expected at least 1, got ", threads);
  if (threads > 1) arena_ = std::make_unique<Arena>(threads);
}

Parallel::~Parallel() = default;

void Parallel::run(int64_t parts, void (*call)(const void*, int64_t), const void* body) {
  arena_->tbb.execute([&] {
    tbb::parallel_for(
        int64_t{0}, parts, int64_t{1}, [&](int64_t p) { call(body, p); },
        tbb::static_partitioner());
  });
}

}  // namespace gangway
