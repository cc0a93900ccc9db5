// Device: all hardware behind one interface, modelled on CUDA's semantics, so that its
// implementation for a GPU is a thin layer. A device consists of three:
//
//   memory()     DeviceMemory     bytes, and the host's memory that copies reach
//   compiler()   DeviceCompiler   from a local function to one that can be run
//   stream()     DeviceStream     works in their order, copies, marks, time
//
// Code takes the narrowest of them that it needs. The device as a whole has a name, and
// meets other devices.
//
// The interface has 8 members.
// Threads: any; collective() and link_to() on the reactor's, while plans are linked.
// Ownership: the device owns its parts and outlives functions that were compiled for it, works that
// were enqueued on it, and collectives and links that it made. Its memory may outlive it.
// Errors: each part's own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/devices/device_compiler.h"
#include "executor/devices/device_stream.h"
#include "executor/store/device_memory.h"
#include "executor/transfers/device_link.h"

namespace gangway {

class Device;

// The devices of one collective, each once, in the order of their lowest ranks.
struct DeviceGroup {
  std::string name;              // Made of all its devices, in order: equal on every host.
  std::vector<Device*> members;  // Null if the device is another host's.
  std::vector<LinkClass> links;  // Link of each device to the next, and of the last to the first.
  int64_t bytes_max = 0;         // Limit for a collective.
  CollectiveKinds kinds{};       // Kinds that the group must do.
  // Number of each device's ranks that are members. Empty: one each.
  std::vector<uint32_t> ranks;
  uint32_t ranks_per_device = 1;
  std::vector<uint32_t> device_of{};  // Device that runs each rank. Empty: one rank each.
};

// The collectives in which a member meets the others in host memory.
struct RendezvousOfGroup {
  std::unique_ptr<Collective> all;
  // The group of the lowest ranks of each device, if a device has several ranks and there are
  // several devices; null for other ranks.
  std::unique_ptr<Collective> devices = nullptr;
};

// Why a device can't take part in a collective: the text behind the kind's name, and a hint.
struct CollectiveRefusal {
  std::string why, hint;
};

class Device {
 public:
  // The parts are those of the derived device.
  Device(std::shared_ptr<DeviceMemory> memory, DeviceCompiler& compiler, DeviceStream& stream)
      : memory_(std::move(memory)), compiler_(compiler), stream_(stream) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return stream_.name(); }
  DeviceMemory& memory() const { return *memory_; }
  DeviceCompiler& compiler() const { return compiler_; }
  DeviceStream& stream() const { return stream_; }

  // A collective of a rank for tensors in this device's memory, whose members meet in host memory.
  virtual std::unique_ptr<Collective> collective(RendezvousOfGroup rendezvous,
                                                 const DeviceGroup& group);
  // The staging_bytes() that such a collective will have.
  virtual int64_t collective_bytes(const DeviceGroup& group) const;
  // Why the device can't serve this group; empty if it can.
  virtual std::optional<CollectiveRefusal> refuses(const DeviceGroup& group) const;
  // A link into the memory of `receiver`, a device of this process and kind, with `slots` slots;
  // null: transfers go through host memory.
  virtual std::unique_ptr<DeviceLink> link_to(Device& receiver, uint32_t slots);

 private:
  const std::shared_ptr<DeviceMemory> memory_;  // Shared with its buffers.
  DeviceCompiler& compiler_;
  DeviceStream& stream_;
};

}  // namespace gangway
