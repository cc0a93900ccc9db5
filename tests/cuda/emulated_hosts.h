// EmulatedHosts: CudaHosts on the cards of one emulated machine.
//
// Threads: the caller's is the reactor.
#pragma once

#include <memory>
#include <vector>

#include "tests/cuda/cuda_hosts.h"
#include "tests/cuda/emulated_gpu.h"

namespace gangway {

// `count` hosts of `devices` devices each, over `cards` cards each.
struct EmulatedHosts : CudaHosts {
  EmulatedHosts(uint64_t seed, uint32_t count, uint32_t devices, uint32_t cards = 1)
      : EmulatedHosts(emulated::make_machine(seed, count * cards), count * cards, devices, cards) {}
  EmulatedHosts(const std::shared_ptr<emulated::EmulatedMachine>& of, uint32_t all,
                uint32_t devices, uint32_t cards)
      : CudaHosts(
            drivers(of, all), [of] { return of->report_text(); }, devices, cards),
        machine(of) {}

  static std::vector<std::shared_ptr<cuda::Driver>> drivers(
      const std::shared_ptr<emulated::EmulatedMachine>& machine, uint32_t cards) {
    std::vector<std::shared_ptr<cuda::Driver>> made;
    for (uint32_t c = 0; c < cards; ++c) made.push_back(emulated::driver_of(machine, c));
    return made;
  }

  const std::shared_ptr<emulated::EmulatedMachine> machine;
};

}  // namespace gangway
