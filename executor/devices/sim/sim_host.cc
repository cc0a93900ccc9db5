#include "executor/devices/sim/sim_host.h"

#include <cmath>

#include "executor/devices/sim/sim_device.h"
#include "ir/plan/rates.h"

namespace gangway {

void SimHost::resume() {
  stopped_ = false;
  for (SimDevice* device : devices_) device->stream().ring();
}

void SimHost::remove(SimDevice& device) {
  std::erase(devices_, &device);
  taken_.erase(&device);
}

void SimHost::exhaust_memory() {
  free_memory();
  for (SimDevice* device : devices_) {
    DeviceMemory& memory = device->memory();
    const int64_t free = memory.budget() - memory.in_use();
    memory.reserve(free, "a simulated shortage").value();
    taken_[device] = free;
  }
}

void SimHost::free_memory() {
  for (const auto& [device, bytes] : taken_) device->memory().unreserve(bytes);
  taken_.clear();
}

int64_t SimHost::kernel_ns(const Function& function, NodeId node) const {
  return modelled_ns(rates_of("sim"), function, node);
}

int64_t SimHost::begin_step(const CallFrame& frame, Turn& turn, int64_t cost_ns) {
  const int64_t ns =
      slowness_ == 1 ? cost_ns : std::llround(static_cast<double>(cost_ns) * slowness_);
  return count(frame, turn, ns);
}

int64_t SimHost::begin_collective(const CallFrame& frame, Turn& turn, int64_t cost_ns) {
  return count(frame, turn, cost_ns);
}

int64_t SimHost::count(const CallFrame& frame, Turn& turn, int64_t ns) {
  busy_ns_ += ns;
  if (frame.program != nullptr) {
    by_program_[*frame.program] += ns;
    if (options_.busy != nullptr)
      options_.busy->push_back({turn.stream.name(), *frame.program, turn.now_ns, turn.now_ns + ns});
  }
  if (options_.replay != nullptr)
    options_.replay->add(ReplayHash::of(turn.stream.name()), turn.now_ns + ns);
  return ns;
}

}  // namespace gangway
