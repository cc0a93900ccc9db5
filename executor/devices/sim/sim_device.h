// SimDevice: a device on the virtual clock: the CPU's steps, computed inline on the reactor, each
// charged modelled time; or the time alone (sim_host.h).
//
// Threads: the reactor's only. Ownership: see device.h.
#pragma once

#include <memory>
#include <string>

#include "executor/devices/device.h"
#include "executor/devices/sim/sim_compiler.h"
#include "executor/devices/sim/sim_device_stream.h"
#include "executor/devices/sim/sim_host.h"
#include "executor/kernels/parallel.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

class SimDevice final : public Device {
 public:
  // `host`: null for a device with default properties and no peers.
  SimDevice(Reactor& reactor, const std::string& name, int64_t memory_bytes,
            std::shared_ptr<SimHost> host = nullptr);
  ~SimDevice() override;

  SimDeviceStream& stream() { return stream_; }

 private:
  const std::shared_ptr<SimHost> host_;
  Parallel par_{1};
  SimCompiler compiler_;
  SimDeviceStream stream_;
};

}  // namespace gangway
