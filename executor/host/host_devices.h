// HostDevices: the devices of one host, and the link by which its peers reach them.
//
// Threads: reactor thread.
// Ownership: stop() ends the devices' threads; it is called before the plans are destroyed, whose
// work the threads run. The devices are destroyed after the plans, whose buffers need their memory.
// Errors: the constructor throws if the options are wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/devices/cuda/driver/gpu.h"
#include "executor/devices/device.h"
#include "executor/host/host_options.h"
#include "executor/links/host_link.h"
#include "executor/work/bell.h"
#include "protocol/messages.h"

namespace gangway {

class Reactor;

class HostDevices {
 public:
  HostDevices(Reactor& reactor, HostOptions options);
  HostDevices(const HostDevices&) = delete;

  std::string describe() const;  // One line a device.
  HostLink& link() const { return *link_; }
  // The bell that wakes a device of this host.
  const Bell& bell(uint32_t device) const { return bells_.at(device); }
  // Gives up compilations that are under way.
  void leave();
  void stop();

  // Called when a link to a peer breaks while it may live.
  std::function<void(LinkBrokenFrame)> on_link_broken;
  const HostOptions options;  // Defaults are filled in.
  std::vector<std::unique_ptr<Device>> all;

 private:
  std::vector<std::shared_ptr<cuda::Gpu>> cards_;
  std::vector<Bell> bells_;
  std::unique_ptr<HostLink> link_;
};

}  // namespace gangway
