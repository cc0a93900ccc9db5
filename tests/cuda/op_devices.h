// OpDevices: CUDA devices of one card that run a local function on literals, all of them
// together.
//
// Threads: the test's.
// Errors: gtest failures; throws if compile() refuses the function.
//
// Example:
//   OpDevices devices(emulated::card_maker(seed).make(), 2);
//   results = devices.run(function, {inputs, inputs});  // A mesh of two; one: the first device.
#pragma once

#include <memory>
#include <vector>

#include "executor/devices/cuda/cuda_device.h"
#include "ir/graph/function.h"
#include "runtime/fibers/reactor.h"
#include "runtime/os/shared_segment.h"
#include "tests/cuda/card.h"
#include "tests/interpret/literal.h"

namespace gangway {

class OpDevices {
 public:
  OpDevices(Card card, uint32_t count);

  // Takes and returns the lists of interpret_local(): [device][parameter] to [device][result].
  // Collectives join all devices. `times`: number of runs, one after another, compiled once and in
  // the same buffers.
  std::vector<std::vector<Literal>> run(const std::shared_ptr<const Function>& function,
                                        const std::vector<std::vector<Literal>>& arguments,
                                        int times = 1);
  // Numerics of functions that are run from now on.
  Numerics numerics;
  // Runs stop after each `section_steps` steps, as sections do. 0: only at the end.
  uint32_t section_steps = 0;
  CudaDevice& device(size_t i = 0) { return *devices_[i]; }
  // Card::report of the card.
  std::string report() const { return card_.report(); }

 private:
  struct Call;

  void prepare(Call& call, const std::shared_ptr<const Function>& function,
               const std::vector<Literal>& arguments);
  void join(std::vector<std::unique_ptr<Call>>& calls);
  void enqueue(Call& call);
  std::vector<Literal> results_of(Call& call);

  const std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  const Card card_;
  std::vector<Doorbell> bells_;
  std::vector<std::unique_ptr<CudaDevice>> devices_;
};

}  // namespace gangway
