// Every op of the table on the CPU device against the reference interpreter, in f64, f32 and bf16.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include "executor/devices/cpu/cpu_function.h"
#include "executor/devices/cpu/kernel.h"
#include "executor/store/buffer_pool.h"
#include "ir/interpret.h"
#include "ir/text.h"
#include "tests/op_table/cases.h"

namespace gangway {
namespace {

using op_table::OpCase;

class NoDevice final : public Device {
 public:
  NoDevice() : Device("test", int64_t{1} << 30) {}
  std::shared_ptr<const CompiledFunction> compile(const LocalFunction&) override { return nullptr; }
  void enqueue(Work&) override {}
  void ring() override {}
  void stop() override {}
  void use_bell(Bell) override {}
  int64_t now_ns() const override { return 0; }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void check_finite(DType, const void*, int64_t, uint32_t*) override {}
};

std::shared_ptr<Function> function_of(const OpCase& test, const std::vector<Literal>& inputs) {
  auto function = std::make_shared<Function>();
  function->name = "case";
  function->local = true;
  Node node{.op = test.op, .attrs = test.attrs};
  std::vector<Type> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    function->parameters.push_back({"p" + std::to_string(i), {}});
    types.push_back(inputs[i].type);
    node.inputs.push_back(static_cast<ValueId>(i));
  }
  const std::vector<Type> results = infer_types(test.op, types, node.attrs, test.body.get());
  node.body = test.body;
  node.first_result = static_cast<ValueId>(types.size());
  node.results = static_cast<uint32_t>(results.size());
  function->types = types;
  for (size_t r = 0; r < results.size(); ++r) {
    function->results.push_back(node.first_result + static_cast<ValueId>(r));
    function->result_names.push_back("r" + std::to_string(r));
    function->types.push_back(results[r]);
  }
  function->nodes = {node};
  function->infos.resize(1);
  return function;
}

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
                                const std::vector<Literal>& inputs, int threads) {
  Parallel par(threads);
  NoDevice device;
  const LocalFunction local{function, static_cast<NodeId>(function->nodes.size()), {}, kNone};
  const CpuFunction compiled(local, par);
  CallFrame frame;
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

bool close(double got, double want, double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= tolerance * (1 + std::abs(want));
}

double tolerance_of(DType dtype, DType of_case) {
  if (!is_float(dtype)) return 0;
  if (of_case == DType::kBF16) return 0.03;  // Some intermediates are rounded, some are not.
  return of_case == DType::kF64 && dtype == DType::kF64 ? 1e-11 : 2e-5;
}

class CpuOps : public testing::TestWithParam<DType> {};

uint64_t seed() {
  const char* text = std::getenv("GW_TEST_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

TEST_P(CpuOps, EqualTheReference) {
  RecordProperty("seed", static_cast<int>(seed()));
  Rng rng(seed());
  for (const OpCase& test : op_table::all_cases(GetParam())) {
    if (!cpu::has_kernel(test.op) || test.op == Op::shard_slice || test.op == Op::custom_call)
      continue;
    const std::vector<Literal> inputs = test.make(rng);
    const std::shared_ptr<Function> function = function_of(test, inputs);
    SCOPED_TRACE(cat("seed ", seed(), ", ", print(*function)));
    const std::vector<Literal> want = interpret(*function, inputs);
    const std::vector<Literal> got = run_on_cpu(function, inputs, 1);
    for (size_t r = 0; r < want.size(); ++r) {
      const double tolerance = tolerance_of(want[r].type.dtype, GetParam());
      for (size_t i = 0; i < want[r].values.size(); ++i) {
        if (close(got[r].values[i], want[r].values[i], tolerance)) continue;
        ADD_FAILURE() << "result " << r << " element " << i << ": expected " << want[r].values[i]
                      << ", got " << got[r].values[i];
        break;
      }
    }
  }
}

TEST_P(CpuOps, HaveTheSameBitsOnEveryRepetitionAndWithTwoThreads) {
  for (const OpCase& test : op_table::all_cases(GetParam())) {
    if (!cpu::has_kernel(test.op) || test.op == Op::shard_slice || test.op == Op::custom_call)
      continue;
    Rng rng(seed());
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

TEST(CpuOps, EveryOpHasAKernelOrIsAStep) {
  const std::set<Op> steps = {Op::timed, Op::all_reduce};
  for (int op = 0; op < kOpCount; ++op) {
    EXPECT_NE(cpu::has_kernel(static_cast<Op>(op)), steps.contains(static_cast<Op>(op)))
        << to_string(static_cast<Op>(op));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CpuOps, testing::Values(DType::kF64, DType::kF32, DType::kBF16),
                         [](const auto& i) { return std::string(to_string(i.param)); });

}  // namespace
}  // namespace gangway
