// SimCluster: the real controller, executors and clients in one thread on virtual time, from the
// reactor's seed; up to 128 hosts of 8 devices are tried in tests.
//
// Only what lies outside of Gangway is simulated: the clock, the network (runtime/net/sim_network)
// and the devices (executor/devices/sim). This class does faults of processes: it kills, stops and
// slows down processes, lets a machine vanish, and uses up memory. Faults of links are done through
// `network`.
//
// Threads: the reactor's; creating and destroying one suspends, and so do functions that say so.
// Ownership: the reactor and the tracer outlive it; clients are closed before it goes.
// Errors: those of the services.
//
// Example:
//   auto reactor = Reactor::make_simulated({.seed = 7});
//   reactor->run([&] {
//     SimCluster cluster(*reactor, {.hosts = 64, .devices_per_host = 4, .timed_only = true});
//     Client client = cluster.connect("client");
//     ...
//     client.close();
//   });
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "controller/service/service.h"
#include "executor/devices/sim/sim_host.h"
#include "executor/links/sim_fabric.h"
#include "executor/service/service.h"
#include "runtime/base/replay_hash.h"
#include "runtime/net/frame_options.h"
#include "runtime/net/sim_network.h"
#include "runtime/observe/trace.h"
#include "sim/sim_process.h"

namespace gangway {

struct SimClusterOptions {
  int hosts = 2;
  int devices_per_host = 2;
  int islands = 1;  // Consecutive hosts share an island; the controller is in the first island.
  int64_t memory_bytes = 64 << 20;  // Memory of each device.
  int64_t suspended_bytes = 0;      // For each host; see HostOptions.
  bool timed_only = false;          // See executor/devices/sim/sim_host.h.
  SimLinks links;                   // Between the devices.
  // Between the controller and a host or client of its island, and of another.
  SimSpeed near{.delay = std::chrono::microseconds(50), .jitter = std::chrono::microseconds(20)};
  SimSpeed far{.delay = std::chrono::microseconds(500), .jitter = std::chrono::microseconds(100)};
  int64_t heartbeat_interval_ms = 1000;
  int64_t host_timeout_ms = 10'000;
  int64_t lease_ms = 60'000;      // See ControllerOptions.
  std::string policy = "fair";    // See ControllerOptions.
  bool overlay_memory = false;    // See ControllerOptions.
  std::string checkpoint_folder;  // See ControllerOptions.
  std::string state_folder;       // The controller's (StateDir); empty: it has none.
  ProcessTime time = ProcessTime::kFree;
  ProcessRates controller_rates, executor_rates;
  FrameOptions frames;                    // For streams of the controller and the executors.
  Tracer* tracer = nullptr;               // Gets a row for each device.
  std::vector<BusySpan>* busy = nullptr;  // See SimHostOptions.
  // See HostOptions; null: a new checked_order_log() for each controller.
  std::shared_ptr<OrderLog> order_log;
  // Creates the log of HostOptions for each controller, which counts requests from the beginning;
  // null: landing_log_of_test().
  std::function<std::shared_ptr<LandingLog>()> new_landings;
  std::shared_ptr<ChargeLog> charge_log;  // See ControllerOptions.
  // See ControllerOptions.
  OwnerBounds owner_bounds = kOwnerBounds;
};

class SimCluster {
 public:
  explicit SimCluster(Reactor& reactor, SimClusterOptions options = {});
  ~SimCluster();
  SimCluster(const SimCluster&) = delete;

  const SimClusterOptions& options() const { return options_; }
  OrderLog& order_log() { return *order_log_; }
  static std::string host_name(int host) { return "host-" + std::to_string(host); }
  static std::string client_name(int client) { return "client-" + std::to_string(client); }
  static constexpr char kController[] = "controller";  // Its endpoint's name.

  // Connects a client whose endpoint has this name; its program has the same name where the options
  // give none. Other options as for a running cluster. Suspends.
  Client connect(const std::string& name, ConnectOptions options = {});
  // Connects a client to the detached program that the options name.
  Client attach(const std::string& endpoint, const ConnectOptions& options);

  // Faults of a host. After kill() and vanish() executors[host] is null.
  void kill(int host);    // Its process ends, its connections with it. Suspends.
  void vanish(int host);  // Its machine ends without a goodbye. Suspends.
  // After kill(): a new process of the host's name registers. Suspends.
  void start_again(int host);
  // From stop() to resume() its process and its devices stand still; connections stay.
  void stop(int host);
  void resume(int host);
  void slow_down(int host, double factor) { hosts_[at(host)]->slow_down(factor); }
  // Takes all free memory of its devices, until free_memory().
  void exhaust_memory(int host) { hosts_[at(host)]->exhaust_memory(); }
  // Writes of the devices of `from` to the memory of `to` are lost from now on.
  void break_link(int from, int to) { fabric_->break_link(host_name(from), host_name(to)); }
  void free_memory(int host) { hosts_[at(host)]->free_memory(); }

  void stop_controller();
  void resume_controller();
  // The controller's process ends, and all that it had is gone but for its state folder; until
  // start_controller() there is no controller. Executors end with their connection: see
  // start_again(). Both suspend.
  void end_controller();
  void start_controller();

  // A client's connections end, and it reaches the controller no more, as if it had been killed and
  // nobody could ask whether its process has ended.
  void cut_off_client(const std::string& name);
  // A client's process stands still: it reads and writes nothing from stop to resume.
  void stop_client(const std::string& name) { network.stop(name); }
  void resume_client(const std::string& name) { network.resume(name); }

  bool alive(int host) const { return executors[at(host)] != nullptr; }
  bool has_controller() const { return controller.service != nullptr; }
  const SimHost& host(int host) const { return *hosts_[at(host)]; }
  const SimFabric& fabric() const { return *fabric_; }
  const ProcessCounts& controller_counts() const { return controller_process_.counts(); }
  // Time for which devices were busy, summed over all of them.
  int64_t busy_ns() const;
  // Hash of everything that was sent and computed so far, with its time.
  uint64_t replay_hash() const { return replay_.value(); }

 private:
  static size_t at(int host) { return static_cast<size_t>(host); }
  int island_of(int host) const { return host * options_.islands / options_.hosts; }
  std::string island_name(int island) const;
  void add_host(int host);
  void start_executor(int host);
  FrameOptions frames_of(SimProcess& process) const;
  std::unique_ptr<ControllerService> make_controller();
  std::shared_ptr<OrderLog> new_order_log() const;
  std::shared_ptr<LandingLog> new_landings() const;

  Reactor& reactor_;
  const SimClusterOptions options_;
  std::shared_ptr<OrderLog> order_log_;
  std::shared_ptr<LandingLog> landings_;
  ReplayHash replay_;
  const std::shared_ptr<MemoryBlocks> memory_;
  const std::shared_ptr<SimFabric> fabric_;
  std::vector<std::shared_ptr<SimHost>> hosts_;
  SimProcess controller_process_;
  std::vector<std::unique_ptr<SimProcess>> processes_;  // Indexed by host.

 public:
  SimNetwork network;
  struct {
    std::unique_ptr<ControllerService> service;  // Null: it has ended.
    Controller& controller() const { return service->controller(); }
  } controller;
  std::vector<std::unique_ptr<ExecutorService>> executors;  // Indexed by host.
};

}  // namespace gangway
