// CUDA devices on emulated cards.
#pragma once

#include <memory>
#include <vector>

#include "executor/devices/cuda/driver/gpu.h"
#include "tests/cuda/card.h"
#include "tests/emulated/machine.h"

namespace gangway::emulated {

// The driver of a card of `machine`. It keeps the machine alive.
std::shared_ptr<cuda::Driver> driver_of(const std::shared_ptr<EmulatedMachine>& machine,
                                        uint32_t device = 0);
// A GPU on the card.
std::shared_ptr<cuda::Gpu> make_gpu(const std::shared_ptr<EmulatedMachine>& machine,
                                    uint32_t device = 0);

// A machine whose operations run on a thread of its own, which devices need. The seed also decides
// which operations its libraries have: consecutive seeds differ in it.
std::shared_ptr<EmulatedMachine> make_machine(uint64_t seed, uint32_t devices = 1);

// A card of a machine of its own.
CardMaker card_maker(uint64_t seed);
// A maker for each of `count` seeds.
std::vector<CardMaker> card_makers(uint64_t first_seed, uint64_t count);

}  // namespace gangway::emulated
