// Tests how chains and large element-wise ops are launched, and that their results are the
// reference's whatever the width.
#include <gtest/gtest.h>

#include "executor/devices/cuda/lower/lower.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_checks.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

constexpr int64_t kLarge = int64_t{1} << 16;  // From here on an op has a kernel of its own.

// The blocks of 256 threads that x + x is launched with, as a chain.
uint32_t blocks_of_sum(DType dtype, int64_t n) {
  cuda::Gpu gpu(emulated::card_maker(1).make().driver);
  Builder b("f");
  const Value x = b.parameter("x", {dtype, {n}});
  b.result("y", x + x);
  const Function function = b.build();
  cuda::Lowering call(gpu, function, NodeId(0));
  cuda::launch_chain(call,
                     {.inputs = {{dtype}, {dtype}},
                      .code = {{FusedOp::kAdd, dtype, {0, 1}}},
                      .outputs = {{2, dtype}}},
                     1, n, call.tensors());
  EXPECT_EQ(call.commands.size(), 1u);
  EXPECT_EQ(call.commands.at(0).block.x, 256u);
  return call.commands.at(0).grid.x;
}

TEST(ChainLaunch, AThreadTakesSixteenBytesWhereTheRowsAreSoManyElements) {
  EXPECT_EQ(blocks_of_sum(DType::kBF16, 4096), 2u);
  EXPECT_EQ(blocks_of_sum(DType::kF32, 4096), 4u);
  EXPECT_EQ(blocks_of_sum(DType::kF64, 4096), 8u);
  EXPECT_EQ(blocks_of_sum(DType::kBF16, 4096 + 4), 5u);
  EXPECT_EQ(blocks_of_sum(DType::kBF16, 4096 + 2), 9u);
  EXPECT_EQ(blocks_of_sum(DType::kBF16, 4096 + 1), 17u);
}

// Whole strips, halves of strips, single elements.
TEST(ChainLaunch, LargeOpsHaveTheReferencesResults) {
  using op_table::Fill;
  OpDevices devices(emulated::card_maker(2).make(), 1);
  Rng rng(tests::test_seed(), 3);
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int64_t n : {kLarge, kLarge + 4, kLarge + 1}) {
      SCOPED_TRACE(cat(to_string(dtype), " ", n));
      const op_table::Input x{{dtype, {n}}, Fill::kAny}, which{boolean({n}), Fill::kBool};
      const auto check = [&](Op op, const Attrs& attrs, std::vector<op_table::Input> inputs) {
        expect_the_reference(devices, {op, attrs, op_table::inputs(std::move(inputs)), nullptr},
                             dtype, rng);
      };
      check(Op::add, {}, {x, x});
      check(Op::lt, {}, {x, x});
      check(Op::select, {}, {which, x, x});
      check(Op::not_, {}, {which});
      check(Op::convert, {{"dtype", dtype == DType::kF32 ? DType::kBF16 : DType::kF32}}, {x});
    }
  }
}

}  // namespace
}  // namespace gangway
