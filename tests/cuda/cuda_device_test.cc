// The conformance suite of devices on the emulated driver, over several seeds.
#include "executor/devices/cuda/cuda_device.h"

#include <atomic>
#include <cmath>

#include "executor/task.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "runtime/mailbox.h"
#include "tests/conformance/device_suite.h"
#include "tests/cuda/emulated_gpu.h"

namespace gangway {
namespace {

DeviceMaker emulated(uint64_t seed) {
  return {cat("seed", seed), [] { return Reactor::make_real(); },
          [seed](Reactor&, int64_t bytes) -> std::unique_ptr<Device> {
            const auto machine = emulated::make_machine(seed);
            const std::shared_ptr<emulated::EmulatedMachine> watched(
                machine.get(),
                [machine](emulated::EmulatedMachine* of) { EXPECT_EQ(of->report_text(), ""); });
            return std::make_unique<CudaDevice>(CudaDeviceOptions{
                .name = "cuda-0", .memory_bytes = bytes, .gpu = emulated::make_gpu(watched)});
          }};
}

std::vector<DeviceMaker> seeds() {
  std::vector<DeviceMaker> makers;
  for (uint64_t seed = 1; seed <= 8; ++seed) makers.push_back(emulated(seed));
  return makers;
}

TEST(CudaGraphs, CommandsThatComeAgainWithTheirAddressesAreReplayedAsOneGraph) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto machine = emulated::make_machine(seed);
    const auto reactor = Reactor::make_real();
    {
      CudaDevice device(
          {.name = "cuda-0", .memory_bytes = 1 << 20, .gpu = emulated::make_gpu(machine)});
      Builder b("f");
      Value x = b.parameter("x", f32({4}));
      b.result("y", exp(x) * 2.0 - tanh(x));
      Function function = b.build();
      function.local = true;
      const auto shared = std::make_shared<const Function>(std::move(function));
      const auto compiled =
          device.compile({shared, static_cast<NodeId>(shared->nodes.size()), {}, kNone});
      const BufferPtr buffer = allocate_buffer(device.memory(), 512 + compiled->arena_bytes(), "f");
      const HostMemory host = device.host_memory(32);
      auto* const values = reinterpret_cast<float*>(host.get());
      for (int run = 0; run < 5; ++run) {
        device.host_access(HostAccess::kWrite, values, 32);
        std::fill_n(values, 4, static_cast<float>(run));
        CallFrame frame{.bases = {buffer->data(), buffer->data() + 256, buffer->data() + 512},
                        .end = compiled->step_count()};
        std::atomic<bool> done{false};
        enqueue_task(
            device,
            [&](Turn& turn) {
              device.copy(frame.bases[0], values, 16);
              EXPECT_EQ(compiled->advance(frame, turn), Progress::kDone);
              device.copy(values + 4, frame.bases[1], 16);
              return Progress::kDone;
            },
            [&](const std::shared_ptr<const Error>&) {
              reactor->mailbox().post([&done] { done = true; });
            });
        reactor->run_until([&] { return done.load(); });
        device.host_access(HostAccess::kRead, values + 4, 16);
        const float at = static_cast<float>(run);
        EXPECT_NEAR(values[4], std::exp(at) * 2 - std::tanh(at), 1e-4);
      }
      EXPECT_EQ(device.graphs().launches(), 4u);
    }
    EXPECT_EQ(machine->report_text(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Emulated, DeviceSuite, testing::ValuesIn(seeds()),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace gangway
