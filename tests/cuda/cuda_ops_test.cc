// Every op of the table on the CUDA device over the emulated driver, against the reference
// interpreter; an op without a kernel stands in the list of those that are refused.
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "executor/devices/cuda/cuda_function.h"
#include "executor/task.h"
#include "ir/interpret.h"
#include "ir/text.h"
#include "runtime/mailbox.h"
#include "runtime/reactor.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/op_table/case_run.h"

namespace gangway {
namespace {

using op_table::case_seed;
using op_table::OpCase;

class OneGpu {
 public:
  explicit OneGpu(uint64_t seed)
      : machine(emulated::make_machine(seed)),
        device({.name = "cuda-0",
                .memory_bytes = int64_t{1} << 30,
                .gpu = emulated::make_gpu(machine)}) {}

  std::vector<Literal> run(const std::shared_ptr<Function>& function,
                           const std::vector<Literal>& inputs) {
    const auto compiled =
        device.compile({function, static_cast<NodeId>(function->nodes.size()), {}, kNone});
    CallFrame frame;
    std::vector<BufferPtr> buffers;
    std::vector<HostMemory> in, out;
    const auto add = [&](int64_t bytes) {
      buffers.push_back(allocate_buffer(device.memory(), bytes, "tensor"));
      frame.bases.push_back(buffers.back()->data());
    };
    for (const Literal& input : inputs) {
      const std::vector<std::byte> bytes = to_bytes(input);
      const auto size = static_cast<int64_t>(bytes.size());
      in.push_back(device.host_memory(size));
      device.host_access(HostAccess::kWrite, in.back().get(), size);
      std::copy(bytes.begin(), bytes.end(), in.back().get());
      add(size);
    }
    for (ValueId result : function->results) {
      out.push_back(device.host_memory(function->types[result].bytes()));
      add(function->types[result].bytes());
    }
    add(compiled->arena_bytes());
    frame.end = compiled->step_count();
    std::atomic<bool> done{false};
    std::shared_ptr<const Error> error;
    enqueue_task(
        device,
        [&](Turn& turn) {
          if (frame.step == 0 && !frame.begun) {
            for (size_t i = 0; i < in.size(); ++i)
              device.copy(frame.bases[i], in[i].get(), inputs[i].type.bytes());
          }
          if (compiled->advance(frame, turn) == Progress::kPending) return Progress::kPending;
          for (size_t r = 0; r < out.size(); ++r)
            device.copy(out[r].get(), frame.bases[inputs.size() + r], bytes_of(*function, r));
          return Progress::kDone;
        },
        [&](const std::shared_ptr<const Error>& failure) {
          error = failure;
          reactor->mailbox().post([&done] { done = true; });
        });
    reactor->run_until([&] { return done.load(); });
    EXPECT_EQ(error, nullptr) << error->what();
    EXPECT_EQ(frame.error, nullptr) << frame.error->what();
    std::vector<Literal> results;
    for (size_t r = 0; r < out.size(); ++r) {
      device.host_access(HostAccess::kRead, out[r].get(), bytes_of(*function, r));
      results.push_back(from_bytes(function->types[function->results[r]],
                                   {out[r].get(), static_cast<size_t>(bytes_of(*function, r))}));
    }
    return results;
  }

  static int64_t bytes_of(const Function& function, size_t result) {
    return function.types[function.results[result]].bytes();
  }

  std::unique_ptr<Reactor> reactor = Reactor::make_real();
  std::shared_ptr<emulated::EmulatedMachine> machine;
  CudaDevice device;
};

class CudaOps : public testing::TestWithParam<DType> {};

TEST_P(CudaOps, EqualTheReference) {
  RecordProperty("seed", static_cast<int>(case_seed()));
  Rng rng(case_seed());
  OneGpu gpu(case_seed());
  for (const OpCase& test : op_table::all_cases(GetParam())) {
    if (!cuda::has_kernel(test.op) || test.op == Op::shard_slice) continue;
    const std::vector<Literal> inputs = test.make(rng);
    const std::shared_ptr<Function> function = op_table::function_of(test, inputs);
    SCOPED_TRACE(cat("seed ", case_seed(), ", ", print(*function)));
    const std::vector<Literal> want = interpret(*function, inputs);
    EXPECT_EQ(op_table::difference(gpu.run(function, inputs), want, GetParam()), "");
    ASSERT_EQ(gpu.machine->report_text(), "");
  }
}

TEST(CudaOps, EveryOpHasAKernelOrIsAStepOrIsRefused) {
  const std::set<Op> steps = {Op::timed, Op::all_reduce};
  const std::set<Op> refused = {Op::custom_call};
  for (int i = 0; i < kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    EXPECT_NE(cuda::has_kernel(op), steps.contains(op) || refused.contains(op)) << to_string(op);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaOps, testing::Values(DType::kF64, DType::kF32, DType::kBF16),
                         [](const auto& i) { return std::string(to_string(i.param)); });

}  // namespace
}  // namespace gangway
