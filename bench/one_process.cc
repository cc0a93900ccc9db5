#include "bench/one_process.h"

#include "client/session.h"

namespace gangway::bench {

OneProcess::OneProcess(const Shape& shape)
    : reactor_(Reactor::make_real()), tracer_(reactor_->clock(), "bench") {
  reactor_->run([&] {
    network_ = std::make_unique<SimNetwork>(*reactor_);
    controller_ =
        std::make_unique<ControllerService>(*reactor_, network_->endpoint("controller"),
                                            ControllerServiceOptions{.address = "sim:controller"});
    const LocalShape local{shape.executors, shape.devices};
    for (int i = 0; i < shape.executors; ++i) {
      const std::string name = cat("host-", i);
      executors_.push_back(std::make_unique<ExecutorService>(
          *reactor_, network_->endpoint(name),
          ExecutorServiceOptions{.controller = controller_->address(),
                                 .host = {.name = name,
                                          .devices = shape.devices,
                                          .memory_bytes = internal::memory_share(local, {}),
                                          .threads = internal::thread_share(local),
                                          .tracer = shape.traced ? &tracer_ : nullptr}}));
    }
  });
  client_ = internal::connect_on(*reactor_, network_->endpoint("client"), controller_->address());
}

OneProcess::~OneProcess() {
  client_->close();
  client_.reset();
  reactor_->run([&] {
    executors_.clear();
    controller_.reset();
  });
}

FrameCounts OneProcess::counts(size_t host) const {
  return {controller_->controller().tables().metrics, {{"host", cat("host-", host)}}};
}

uint64_t OneProcess::frames(size_t host) const {
  const FrameCounts counted = counts(host);
  return counted.frames_sent.value() + counted.frames_received.value();
}

uint64_t OneProcess::frame_bytes(size_t host) const {
  const FrameCounts counted = counts(host);
  return counted.bytes_sent.value() + counted.bytes_received.value();
}

}  // namespace gangway::bench
