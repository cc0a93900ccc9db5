// Every op of the table on the CPU device against the reference interpreter, in f64, f32 and bf16.
#include <gtest/gtest.h>

#include "executor/devices/lower/kernel_family.h"
#include "ir/text/text.h"
#include "tests/cpu_ops/run_on_cpu.h"
#include "tests/interpret/interpret.h"
#include "tests/op_table/case_run.h"

namespace gangway {
namespace {

using op_table::case_seed;
using op_table::function_of;
using op_table::OpCase;

bool has_kernel(Op op) { return kernel_family(op) != KernelFamily::kStep; }

class CpuOps : public testing::TestWithParam<DType> {};

TEST_P(CpuOps, EqualTheReference) {
  RecordProperty("seed", static_cast<int>(case_seed()));
  Rng rng(case_seed());
  for (const OpCase& test : op_table::all_cases(GetParam())) {
    if (!has_kernel(test.op) || test.op == Op::shard_slice || test.op == Op::custom_call) continue;
    const std::vector<Literal> inputs = test.make(rng);
    const std::shared_ptr<Function> function = function_of(test, inputs);
    SCOPED_TRACE(cat("seed ", case_seed(), ", ", print(*function)));
    const std::vector<Literal> want = interpret(*function, inputs);
    const std::vector<Literal> got = run_on_cpu(function, inputs, 1);
    EXPECT_EQ(op_table::difference(got, want, GetParam()), "");
  }
}

TEST_P(CpuOps, HaveTheSameBitsOnEveryRepetitionAndWithTwoThreads) {
  for (const OpCase& test : op_table::all_cases(GetParam())) {
    if (!has_kernel(test.op) || test.op == Op::shard_slice || test.op == Op::custom_call) continue;
    Rng rng(case_seed());
    const std::vector<Literal> inputs = test.make(rng);
    const std::shared_ptr<Function> function = function_of(test, inputs);
    SCOPED_TRACE(print(*function));
    const std::vector<Literal> first = run_on_cpu(function, inputs, 1);
    for (int threads : {1, 2}) {
      const std::vector<Literal> again = run_on_cpu(function, inputs, threads);
      for (size_t r = 0; r < first.size(); ++r) EXPECT_EQ(to_bytes(again[r]), to_bytes(first[r]));
    }
  }
}

TEST_P(CpuOps, OpsThatLookAtTheMeshEqualTheReferenceOnEachDevice) {
  Rng rng(case_seed());
  for (const OpCase& test : op_table::collective_cases(GetParam())) {
    if (!has_kernel(test.op)) continue;
    const std::vector<Literal> inputs = test.make(rng);
    const std::shared_ptr<Function> function = function_of(test, inputs);
    function->mesh = {{{"data", 2}}};
    SCOPED_TRACE(print(*function));
    const std::vector<std::vector<Literal>> want = interpret_local(*function, {inputs, inputs});
    for (uint32_t d = 0; d < 2; ++d) {
      const std::vector<Literal> got = run_on_cpu(function, inputs, 1, d);
      EXPECT_EQ(op_table::difference(got, want[d], GetParam()), "") << "device " << d;
    }
  }
}

TEST(CpuOps, EveryOpHasAKernelOrIsAStep) {
  for (int i = 0; i < kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    EXPECT_NE(has_kernel(op), row(op).meets || op == Op::timed) << to_string(op);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CpuOps, testing::Values(DType::kF64, DType::kF32, DType::kBF16),
                         [](const auto& i) { return std::string(to_string(i.param)); });

}  // namespace
}  // namespace gangway
