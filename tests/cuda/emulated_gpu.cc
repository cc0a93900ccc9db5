#include "tests/cuda/emulated_gpu.h"

namespace gangway::emulated {

std::shared_ptr<cuda::Driver> driver_of(const std::shared_ptr<EmulatedMachine>& machine,
                                        uint32_t device) {
  return {machine, &machine->driver(device)};
}

std::shared_ptr<cuda::Gpu> make_gpu(const std::shared_ptr<EmulatedMachine>& machine,
                                    uint32_t device) {
  return std::make_shared<cuda::Gpu>(driver_of(machine, device));
}

std::shared_ptr<EmulatedMachine> make_machine(uint64_t seed, uint32_t devices) {
  return std::make_shared<EmulatedMachine>(
      EmulatedOptions{.seed = seed,
                      .devices = devices,
                      .background = true,
                      .library = seed % 2 == 0 ? Library::kAll : Library::kProducts});
}

}  // namespace gangway::emulated
