// HostDevices: the devices of one host, and the bells by which its peers ring them.
//
// Threads: reactor thread.
// Ownership: stop() ends the devices' threads: before the plans go whose work they run. The devices
// themselves go after the plans, whose buffers need their memory.
// Errors: the constructor throws what is wrong with the options.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/devices/cuda/driver/gpu.h"
#include "executor/devices/device.h"
#include "executor/host/host.h"
#include "executor/work/bell.h"
#include "runtime/os/shared_segment.h"

namespace gangway {

class Reactor;

class HostDevices {
 public:
  HostDevices(Reactor& reactor, HostOptions options);
  HostDevices(const HostDevices&) = delete;

  std::string describe() const;  // One line a device.
  // What rings a device of this host, or of the peer that offered `bells`.
  Bell bell(uint32_t device) const { return own_bells_.at(device); }
  Bell peer_bell(const SharedSegment& bells, uint32_t device) const;
  // No peer rings them any more, and what they compile is given up.
  void leave();
  void stop();

  const HostOptions options;  // With what was left open filled in.
  SharedSegment bells;        // One doorbell for each device, for peers to ring.
  std::vector<std::unique_ptr<Device>> all;

 private:
  std::vector<std::shared_ptr<cuda::Gpu>> cards_;
  std::vector<Bell> own_bells_;
};

}  // namespace gangway
