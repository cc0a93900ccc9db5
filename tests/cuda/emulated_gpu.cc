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

CardMaker card_maker(uint64_t seed) {
  return {"seed" + std::to_string(seed), [] { return std::string(); },
          [seed] {
            const auto machine = make_machine(seed);
            return Card{driver_of(machine), [machine] { return machine->report_text(); }};
          }};
}

std::vector<CardMaker> card_makers(uint64_t first_seed, uint64_t count) {
  std::vector<CardMaker> makers;
  for (uint64_t i = 0; i < count; ++i) makers.push_back(card_maker(first_seed + i));
  return makers;
}

}  // namespace gangway::emulated
