// Every op of the table on the CPU device against the reference interpreter, in f64, f32 and bf16.
#include <gtest/gtest.h>

#include <cstring>

#include "executor/devices/cpu/cpu_function.h"
#include "executor/devices/cpu/kernel.h"
#include "executor/store/buffer_pool.h"
#include "ir/graph/bodies.h"
#include "ir/text/text.h"
#include "tests/interpret/interpret.h"
#include "tests/op_table/case_run.h"
#include "tests/support/bare_device.h"

namespace gangway {
namespace {

using op_table::case_seed;
using op_table::function_of;
using op_table::OpCase;

// 64-byte aligned memory with a guard behind it, so that a kernel that writes too far is seen.
class Place {
 public:
  Place(DeviceMemory& memory, int64_t bytes)
      : bytes_(bytes), buffer_(allocate_buffer(memory, bytes + kGuard, "test")) {
    std::memset(buffer_->data(), 0xA5, static_cast<size_t>(bytes + kGuard));
  }
  std::byte* data() { return buffer_->data(); }
  bool guarded() const {
    for (int64_t i = 0; i < kGuard; ++i) {
      if (buffer_->data()[bytes_ + i] != std::byte{0xA5}) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kGuard = 256;
  int64_t bytes_;
  BufferPtr buffer_;
};

std::vector<Literal> run_on_cpu(const std::shared_ptr<Function>& function,
                                const std::vector<Literal>& inputs, int threads,
                                uint32_t mesh_device = 0) {
  Parallel par(threads);
  BareDevice device("test", int64_t{1} << 30);
  const LocalFunction local{function, static_cast<NodeId>(function->nodes.size()), {}, kNone};
  const CpuFunction compiled(local, par);
  CallFrame frame;
  frame.mesh_device = mesh_device;
  std::vector<std::unique_ptr<Place>> places;
  const auto add = [&](int64_t bytes) {
    places.push_back(std::make_unique<Place>(device.memory(), bytes));
    frame.bases.push_back(places.back()->data());
    return places.back()->data();
  };
  for (const Literal& input : inputs) {
    const std::vector<std::byte> bytes = to_bytes(input);
    std::byte* data = add(static_cast<int64_t>(bytes.size()));
    if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  }
  for (ValueId result : function->results) add(function->types[result].bytes());
  add(compiled.arena_bytes());
  frame.end = compiled.step_count();
  Turn turn{.device = device};
  EXPECT_EQ(compiled.advance(frame, turn), Progress::kDone);
  std::vector<Literal> results;
  for (size_t r = 0; r < function->results.size(); ++r) {
    const Type& type = function->types[function->results[r]];
    results.push_back(
        from_bytes(type, {frame.bases[inputs.size() + r], static_cast<size_t>(type.bytes())}));
  }
  for (const auto& place : places) EXPECT_TRUE(place->guarded()) << "wrote behind a buffer";
  return results;
}

class CpuOps : public testing::TestWithParam<DType> {};

TEST_P(CpuOps, EqualTheReference) {
  RecordProperty("seed", static_cast<int>(case_seed()));
  Rng rng(case_seed());
  for (const OpCase& test : op_table::all_cases(GetParam())) {
    if (!cpu::has_kernel(test.op) || test.op == Op::shard_slice || test.op == Op::custom_call)
      continue;
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
    if (!cpu::has_kernel(test.op) || test.op == Op::shard_slice || test.op == Op::custom_call)
      continue;
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

TEST_P(CpuOps, ThatLookAtTheMeshEqualTheReferenceOnEachDevice) {
  Rng rng(case_seed());
  for (const OpCase& test : op_table::collective_cases(GetParam())) {
    if (!cpu::has_kernel(test.op)) continue;
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
    EXPECT_NE(cpu::has_kernel(op), row(op).meets || op == Op::timed || shares_body(op))
        << to_string(op);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CpuOps, testing::Values(DType::kF64, DType::kF32, DType::kBF16),
                         [](const auto& i) { return std::string(to_string(i.param)); });

}  // namespace
}  // namespace gangway
