#include "executor/devices/sim/sim_device.h"

#include <cstring>
#include <utility>

#include "executor/devices/cpu/cpu_function.h"
#include "executor/kernels/reduce.h"
#include "ir/plan/rates.h"

namespace gangway {

SimDevice::SimDevice(Reactor& reactor, std::string name, int64_t memory_bytes)
    : Device(name, memory_bytes),
      reactor_(reactor),
      rung_device_(std::make_shared<SimDevice*>(this)),
      bell_(std::make_shared<const std::function<void()>>([device = rung_device_] {
        if (*device != nullptr) (*device)->ring();
      })) {
  fiber_ = reactor_.spawn(name, [this] { serve(); });
}

SimDevice::~SimDevice() {
  stop();
  *rung_device_ = nullptr;
}

void SimDevice::stop() {
  if (std::exchange(stopping_, true)) return;
  fiber_.cancel();
  try {
    fiber_.join();
  } catch (const Error&) {
    // Cancelled while it waited or slept.
  }
  stream_.drop();
}

std::shared_ptr<const CompiledFunction> SimDevice::compile(const LocalFunction& local) {
  return std::make_shared<const CpuFunction>(local, par_, &rates_of("sim"));
}

void SimDevice::enqueue(Work& work) {
  stream_.push(work);
  ring();
}

void SimDevice::ring() {
  rung_ = true;
  ringing_.wake_one();
}

int64_t SimDevice::now_ns() const { return reactor_.clock().now_ns(); }

void SimDevice::copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

void SimDevice::check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) {
  if (!all_finite(par_, dtype, data, elements)) *flag = 1;
}

void SimDevice::serve() {
  while (!stopping_) {
    rung_ = false;
    Turn turn{.device = *this, .now_ns = now_ns()};
    const Progress progress = stream_.advance(turn);
    if (progress == Progress::kPending && turn.wake_at_ns != kNever) {
      ringing_.wait_until_ns("for modelled time to pass", turn.wake_at_ns);
    } else if (!rung_ && !stopping_) {
      ringing_.wait("for work on a simulated device");
    }
  }
}

}  // namespace gangway
