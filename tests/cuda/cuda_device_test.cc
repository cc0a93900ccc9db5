// The conformance suite of devices on the emulated driver, over several seeds.
#include "executor/devices/cuda/cuda_device.h"

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "tests/conformance/device_suite.h"
#include "tests/cuda/card_suites.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_devices.h"
#include "tests/interpret/interpret.h"

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

TEST(CudaDevice, IsCalledBackNoMoreOnceItHasGone) {
  Builder b("f");
  const Value x = b.parameter("x", f32({4}));
  b.result("y", x + x);
  const auto function = std::make_shared<const Function>(b.build());
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const auto machine = std::make_shared<emulated::EmulatedMachine>(
        emulated::EmulatedOptions{.seed = seed, .late_callbacks = true});
    {
      OpDevices devices({emulated::driver_of(machine), [] { return std::string(); }}, 1);
      const Literal ones = filled(f32({4}), 1);
      EXPECT_EQ(devices.run(function, {{ones}})[0][0].values, filled(f32({4}), 2).values);
    }
    EXPECT_EQ(machine->report_text(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Emulated, DeviceSuite, testing::ValuesIn(seeds()),
                         [](const auto& i) { return i.param.name; });
INSTANTIATE_TEST_SUITE_P(Emulated, CardDriver, testing::ValuesIn(emulated::card_makers(1, 8)),
                         card_name);
INSTANTIATE_TEST_SUITE_P(Emulated, CardGraphs, testing::ValuesIn(emulated::card_makers(1, 8)),
                         card_name);

}  // namespace
}  // namespace gangway
