// Every op of the table on the CUDA device over the emulated driver, against the reference
// interpreter in double precision.
//
// A seed chooses the inputs, the order between streams, and the element type: seed % 3. Odd seeds
// have libraries for products alone. Every op runs under 201 seeds, 67 in each type. Gangway's own
// kernels of attention and experts run under half of those, and sanitizers run a tenth of all
// seeds. Ops over a mesh run on two devices of one card.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/devices/cuda/cuda_function.h"
#include "executor/devices/lower/kernel_family.h"
#include "ir/build/builder.h"
#include "ir/build/custom_call.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "tests/cuda/card_suites.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_checks.h"
#include "tests/op_table/case_run.h"

namespace gangway {
namespace {

using op_table::case_seed;
using op_table::OpCase;
using testing::HasSubstr;

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16};

// A test runs every kTests-th seed.
class CudaOps : public testing::TestWithParam<int> {
 protected:
  static constexpr int kTests = 12;
};

TEST_P(CudaOps, EqualTheReference) {
  for (uint64_t seed = case_seed(); seed < case_seed() + GW_OP_SEEDS; ++seed) {
    if (seed % kTests != static_cast<uint64_t>(GetParam())) continue;
    SCOPED_TRACE(cat("seed ", seed));
    const DType dtype = kTypes[seed % 3];
    Rng rng(seed);
    OpDevices devices(emulated::card_maker(seed).make(), 2);
    for (const OpCase& test : op_table::all_cases(dtype)) {
      if (test.op == Op::custom_call) continue;
      expect_the_reference(devices, test, dtype, rng);
      if (HasFailure()) return;
    }
  }
}

// Both devices are on one card.
TEST_P(CudaOps, CollectivesEqualTheReference) {
  for (uint64_t seed = case_seed(); seed < case_seed() + kTests; ++seed) {
    if (seed % kTests != static_cast<uint64_t>(GetParam())) continue;
    SCOPED_TRACE(cat("seed ", seed));
    const DType dtype = kTypes[seed % 3];
    Rng rng(seed);
    OpDevices devices(emulated::card_maker(seed).make(), 2);
    for (const OpCase& test : op_table::collective_cases(dtype)) {
      expect_the_reference(devices, test, dtype, rng);
      if (HasFailure()) return;
    }
  }
}

void expect_refusal(Builder& b, const std::string& why) {
  OpDevices devices(emulated::card_maker(1).make(), 1);
  auto function = std::make_shared<Function>(b.build());
  function->local = true;
  try {
    devices.device().compiler().compile(
        {function, static_cast<NodeId>(function->nodes.size()), {}, kNone});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnimplemented);
    EXPECT_THAT(error.what(), HasSubstr(why));
    EXPECT_THAT(error.what(), HasSubstr("cuda_ops_test.cc:"));
  }
}

TEST(CudaOps, HeadsThatNoLibraryTakesAndNoBlockHoldsAreRefusedWithTheUsersLine) {
  Builder b("f");
  const Value x = b.parameter("x", f32({1, 2, 65536}));
  b.result("y", attention(x, x, x, {.heads = 1}));
  expect_refusal(b, "heads of 65536 are too wide");
}

TEST(CudaOps, AUsersKernelIsRefusedWithTheUsersLine) {
  Builder b("f");
  const UserKernel kernel{.path = "/lib/mine.so", .library = "0", .symbol = "halve"};
  b.result("y", custom_call(kernel, {b.parameter("x", f32({2}))}, f32({2})));
  expect_refusal(b,
                 "custom_call(f32[2]): the CUDA device has no kernel: a user's kernel runs on CPU");
}

// No graph holds all the steps: commands that come again with the same buffers are captured as
// several graphs, and then replayed.
TEST(CudaOps, AScanOfMoreStepsThanAGraphHoldsIsRun) {
  constexpr int64_t kLength = 5000;
  Builder b("f");
  const Value x = b.parameter("x", f32({2})), w = b.parameter("w", f32({kLength, 2}));
  b.result("y", scan(b, {.length = kLength, .carries = x, .stacked = w}, [](const ScanStep& at) {
                  const Value carry = at.carries, slice = at.slices;
                  return Scanned{.carries = carry + slice};
                }).carries);
  auto function = std::make_shared<Function>(b.build());
  function->local = true;
  OpDevices devices(emulated::card_maker(case_seed()).make(), 1);
  Literal ones = filled(f32({kLength, 2}), 1), three = filled(f32({2}), 3);
  constexpr int kRuns = 4;
  EXPECT_EQ(devices.run(function, {{three, ones}}, kRuns)[0][0], filled(f32({2}), 3.0 + kLength));
  const cuda::GraphCache& graphs = devices.device().stream().graphs();
  EXPECT_GT(graphs.captures(), 1u);
  // The first run is launched one by one, the second one captured.
  EXPECT_EQ(graphs.launches(), (kRuns - 1) * graphs.captures());
  EXPECT_EQ(devices.report(), "");
}

TEST(CudaOps, EveryOpHasAKernelOrIsAStepOrIsRefused) {
  for (int i = 0; i < kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    const bool has_none = row(op).meets || op == Op::timed || op == Op::custom_call;
    const KernelFamily family = kernel_family(op);
    EXPECT_EQ(family == KernelFamily::kStep || family == KernelFamily::kCustom, has_none)
        << to_string(op);
  }
}

INSTANTIATE_TEST_SUITE_P(Emulated, CardOps,
                         testing::Combine(testing::Values(emulated::card_maker(case_seed())),
                                          testing::ValuesIn(kTypes)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Seeds, CudaOps, testing::Range(0, 12),
                         [](const auto& i) { return std::to_string(i.param); });

}  // namespace
}  // namespace gangway
