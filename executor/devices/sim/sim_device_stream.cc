#include "executor/devices/sim/sim_device_stream.h"

#include <cstring>
#include <utility>

#include "executor/kernels/reduce.h"

namespace gangway {

SimDeviceStream::SimDeviceStream(Reactor& reactor, const std::string& device,
                                 std::shared_ptr<SimHost> host, Parallel& par)
    : DeviceStream(device),
      reactor_(reactor),
      host_(std::move(host)),
      par_(par),
      rung_stream_(std::make_shared<SimDeviceStream*>(this)),
      bell_(std::make_shared<const std::function<void()>>([stream = rung_stream_] {
        if (*stream != nullptr) (*stream)->ring();
      })) {
  fiber_ = reactor_.spawn(device, [this] { serve(); });
}

SimDeviceStream::~SimDeviceStream() {
  stop();
  *rung_stream_ = nullptr;
}

void SimDeviceStream::stop() {
  if (std::exchange(stopping_, true)) return;
  fiber_.cancel();
  try {
    fiber_.join();
  } catch (const Error&) {
    // It was cancelled while it waited or slept.
  }
  queue_.drop();
}

void SimDeviceStream::push(Work& work, RankStream* rank_stream) { queue_.push(work, rank_stream); }

void SimDeviceStream::ring() {
  rung_ = true;
  ringing_.wake_one();
}

int64_t SimDeviceStream::now_ns() const { return reactor_.clock().now_ns(); }

int64_t SimDeviceStream::send_ns(LinkClass link, int64_t bytes) const {
  return host_->options().links.transfer_ns(link, bytes);
}

void SimDeviceStream::copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && has_values()) std::memcpy(to, from, static_cast<size_t>(bytes));
}

void SimDeviceStream::check_finite(DType dtype, const void* data, int64_t elements,
                                   uint32_t* flag) {
  if (has_values() && !all_finite(par_, dtype, data, elements)) *flag = 1;
}

void SimDeviceStream::serve() {
  while (!stopping_) {
    if (host_->stopped()) {
      ringing_.wait("for a simulated host to go on");
      continue;
    }
    rung_ = false;
    Turn turn{.stream = *this, .now_ns = now_ns()};
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
