#include "executor/devices/sim/sim_device.h"

#include <cstring>
#include <utility>

#include "executor/devices/sim/sim_device_memory.h"
#include "executor/devices/sim/unread_memory.h"
#include "executor/kernels/reduce.h"

namespace gangway {
namespace {

std::shared_ptr<MemoryBlocks> blocks_of(const SimHost* host, int64_t bytes) {
  if (host == nullptr || !host->options().timed_only) return nullptr;
  if (host->options().memory != nullptr) return host->options().memory;
  return std::make_shared<UnreadMemory>(bytes);
}

}  // namespace

SimDevice::SimDevice(Reactor& reactor, std::string name, int64_t memory_bytes,
                     std::shared_ptr<SimHost> host)
    : Device(name,
             std::make_shared<SimDeviceMemory>(name, memory_bytes,
                                               blocks_of(host.get(), memory_bytes)),
             compiler_),
      reactor_(reactor),
      host_(host != nullptr ? std::move(host) : std::make_shared<SimHost>()),
      compiler_(par_, host_),
      rung_device_(std::make_shared<SimDevice*>(this)),
      bell_(std::make_shared<const std::function<void()>>([device = rung_device_] {
        if (*device != nullptr) (*device)->ring();
      })) {
  host_->add(*this);
  fiber_ = reactor_.spawn(name, [this] { serve(); });
}

SimDevice::~SimDevice() {
  stop();
  *rung_device_ = nullptr;
  host_->remove(*this);
}

void SimDevice::stop() {
  if (std::exchange(stopping_, true)) return;
  fiber_.cancel();
  try {
    fiber_.join();
  } catch (const Error&) {
    // It was cancelled while it waited or slept.
  }
  queue_.drop();
}

void SimDevice::push(Work& work, Lane* lane) { queue_.push(work, lane); }

void SimDevice::ring() {
  rung_ = true;
  ringing_.wake_one();
}

int64_t SimDevice::now_ns() const { return reactor_.clock().now_ns(); }

int64_t SimDevice::send_ns(LinkClass link, int64_t bytes) const {
  return host_->options().links.transfer_ns(link, bytes);
}

void SimDevice::copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && has_values()) std::memcpy(to, from, static_cast<size_t>(bytes));
}

void SimDevice::check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) {
  if (has_values() && !all_finite(par_, dtype, data, elements)) *flag = 1;
}

void SimDevice::serve() {
  while (!stopping_) {
    if (host_->stopped()) {
      ringing_.wait("for a simulated host to go on");
      continue;
    }
    rung_ = false;
    Turn turn{.device = *this, .now_ns = now_ns()};
    const Progress progress = queue_.advance(turn);
    if (rung_ || stopping_) continue;  // For example by another rank on it.
    if (progress == Progress::kPending && turn.wake_at_ns != kNever) {
      ringing_.wait_until_ns("for modelled time to pass", turn.wake_at_ns);
    } else {
      ringing_.wait("for work on a simulated device");
    }
  }
}

}  // namespace gangway
