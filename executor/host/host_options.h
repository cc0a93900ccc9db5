// HostOptions: the devices of a host, the limits of its memory, and what connects it to its peers.
//
// Threads: a value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/plan/islands.h"

namespace gangway {

namespace cuda {
class Driver;
}
class LandingLog;
class OrderLog;
class SimFabric;
class SimHost;
class Tracer;
class TrustedFiles;

enum class DeviceKind : uint8_t { kCpu, kSim, kCuda };

struct HostOptions {
  std::string name;
  std::string island = kMainIsland;  // See ir/plan/islands.h.
  DeviceKind kind = DeviceKind::kCpu;
  int devices = 1;
  int64_t memory_bytes = 0;  // For each device; 0: an equal share of the machine's memory.
  // Limit of host memory for the states of suspended programs and for the texts that sources read,
  // together; the name is that of the first use. 0: half of the machine's memory.
  int64_t suspended_bytes = 0;
  int threads = 0;           // Intra-op threads of each device; 0: cores / devices, at least 1.
  Tracer* tracer = nullptr;  // Gets a row for each device; must outlive the host.
  // Logs of what the devices do, and of where they write in memory of clients. Null: no log.
  std::shared_ptr<OrderLog> order_log;
  std::shared_ptr<LandingLog> landings;
  // Files that users' kernels, and programs of owners other than the controller's user, may read;
  // null: all that this process can.
  std::shared_ptr<const TrustedFiles> trusted;
  // kCuda: a driver for each card; device d is on card d modulo their number.
  std::vector<std::shared_ptr<cuda::Driver>> gpus;
  // kSim: connects the simulated hosts of one process; null: this host has no peers.
  std::shared_ptr<SimFabric> fabric;
  // kSim: properties of the simulated devices, and the faults that a simulation puts into them;
  // null: the defaults.
  std::shared_ptr<SimHost> sim;
};

// A log for all hosts of a cluster in this process, which a test program checks once they are gone;
// null in all other programs (executor/replay/order_log.h).
std::shared_ptr<OrderLog> checked_order_log();

}  // namespace gangway
