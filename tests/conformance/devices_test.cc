#include "executor/devices/cpu/cpu_device.h"
#include "executor/devices/sim/sim_device.h"
#include "tests/conformance/device_suite.h"

namespace gangway {
namespace {

const DeviceMaker kCpu{"cpu", [] { return Reactor::make_real(); },
                       [](Reactor&, int64_t bytes) -> std::unique_ptr<Device> {
                         return std::make_unique<CpuDevice>(CpuDeviceOptions{
                             .name = "cpu-0", .memory_bytes = bytes, .threads = 1});
                       }};
const DeviceMaker kSim{"sim", [] { return Reactor::make_simulated(); },
                       [](Reactor& reactor, int64_t bytes) -> std::unique_ptr<Device> {
                         return std::make_unique<SimDevice>(reactor, "sim-0", bytes);
                       }};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceSuite, testing::Values(kCpu, kSim),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace gangway
