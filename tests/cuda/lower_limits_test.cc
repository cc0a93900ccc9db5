// Tests that a card takes every launch of ops with many elements. Nothing is run, so a shape may be
// larger than any memory.
#include <gtest/gtest.h>

#include "executor/devices/cuda/lower/lower.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "tests/cuda/emulated_gpu.h"

namespace gangway {
namespace {

constexpr int64_t kGridXMax = INT32_MAX, kGridYMax = 65535;

// The launches of the only node.
std::vector<cuda::Command> launches_of(Builder& b) {
  const Card card = emulated::card_maker(1).make();
  cuda::Gpu gpu(card.driver);
  const Function function = b.build();
  cuda::Lowering call(gpu, function, NodeId(0));
  cuda::lower(call);
  return call.commands;
}

void expect_legal(const std::vector<cuda::Command>& launches) {
  EXPECT_FALSE(launches.empty());
  for (const cuda::Command& launch : launches) {
    EXPECT_LE(launch.grid.x, kGridXMax);
    EXPECT_LE(launch.grid.y, kGridYMax);
    EXPECT_LE(launch.grid.z, kGridYMax);
  }
}

TEST(CudaLimits, ASumOfMoreThan8192Times65535ElementsIsLaunched) {
  for (const bool squares : {false, true}) {
    Builder b("f");
    const Value x = b.parameter("x", f32({int64_t{1} << 30}));
    b.result("y", squares ? sum_squares(x) : sum(x, {0}));
    expect_legal(launches_of(b));
  }
}

TEST(CudaLimits, ASumOfLongColumnsIsLaunched) {
  Builder b("f");
  b.result("y", sum(b.parameter("x", f32({int64_t{1} << 26, 3})), {0}));
  expect_legal(launches_of(b));
}

TEST(CudaLimits, MoreSequencesThanAGridHasRowsAreDecoded) {
  Builder b("f");
  const Value q = b.parameter("q", f32({100'000, 1, 8})),
              k = b.parameter("k", f32({100'000, 4, 8}));
  b.result("y", attention_decode(q, k, k, b.parameter("length", i32({})), {.heads = 2}));
  expect_legal(launches_of(b));
}

}  // namespace
}  // namespace gangway
