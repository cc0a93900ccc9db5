#include "sim/sim_cluster.h"

#include "client/client_impl.h"
#include "executor/devices/sim/unread_memory.h"
#include "executor/links/sim_fabric.h"

namespace gangway {

namespace {

SimClusterOptions with_logs(SimClusterOptions options) {
  if (options.order_log == nullptr) options.order_log = checked_order_log();
  if (options.landings == nullptr && landing_log_of_test != nullptr)
    options.landings = landing_log_of_test();
  return options;
}

}  // namespace

SimCluster::SimCluster(Reactor& reactor, SimClusterOptions options)
    : reactor_(reactor),
      options_(with_logs(options)),
      memory_(options.timed_only ? std::make_shared<UnreadMemory>(options.memory_bytes) : nullptr),
      fabric_(std::make_shared<SimFabric>()),
      controller_process_(reactor, options.time, options.controller_rates),
      network(reactor,
              {.delay = options.near.delay, .jitter = options.near.jitter, .replay = &replay_}),
      controller(reactor, network.endpoint(kController),
                 {.address = "sim:controller",
                  .controller = {.host_timeout_ms = options.host_timeout_ms,
                                 .lease_ms = options.lease_ms,
                                 .checkpoint_folder = options.checkpoint_folder,
                                 .policy = options.policy,
                                 .overlay_memory = options.overlay_memory,
                                 .owner_bounds = options.owner_bounds,
                                 .charge_log = options.charge_log,
                                 .landings = options_.landings,
                                 .planted = options.planted_in_controller},
                  .frames = frames_of(controller_process_)}) {
  GW_REQUIRE(options.hosts >= 1 && options.islands >= 1 && options.islands <= options.hosts,
             "simulated cluster: expected at least one host, and one for each island, got ",
             options.hosts, " hosts and ", options.islands, " islands");
  for (int host = 0; host < options.hosts; ++host) add_host(host);
}

SimCluster::~SimCluster() {
  resume_controller();
  for (int host = 0; host < options_.hosts; ++host) {
    if (!alive(host)) continue;
    resume(host);
    free_memory(host);
  }
  executors.clear();
}

std::string SimCluster::island_name(int island) const {
  return options_.islands == 1 ? std::string(kMainIsland) : "island-" + std::to_string(island);
}

FrameOptions SimCluster::frames_of(SimProcess& process) const {
  FrameOptions frames = options_.frames;
  frames.pacer = &process;
  return frames;
}

void SimCluster::add_host(int host) {
  network.set_speed(kController, host_name(host),
                    island_of(host) == 0 ? options_.near : options_.far);
  hosts_.push_back(std::make_shared<SimHost>(SimHostOptions{.timed_only = options_.timed_only,
                                                            .links = options_.links,
                                                            .memory = memory_,
                                                            .replay = &replay_,
                                                            .busy = options_.busy}));
  processes_.push_back(
      std::make_unique<SimProcess>(reactor_, options_.time, options_.executor_rates));
  executors.emplace_back();
  start_executor(host);
}

void SimCluster::start_executor(int host) {
  const std::string name = host_name(host);
  executors[at(host)] = std::make_unique<ExecutorService>(
      reactor_, network.endpoint(name),
      ExecutorServiceOptions{.controller = "sim:controller",
                             .host = {.name = name,
                                      .island = island_name(island_of(host)),
                                      .kind = DeviceKind::kSim,
                                      .devices = options_.devices_per_host,
                                      .memory_bytes = options_.memory_bytes,
                                      .threads = 1,
                                      .tracer = options_.tracer,
                                      .order_log = options_.order_log,
                                      .landings = options_.landings,
                                      .order_collectives = options_.order_collectives,
                                      .planted_in_transfers = options_.planted_in_transfers,
                                      .fabric = fabric_,
                                      .sim = hosts_[at(host)]},
                             .heartbeat_interval_ms = options_.heartbeat_interval_ms,
                             .frames = frames_of(*processes_[at(host)])});
}

Client SimCluster::connect(const std::string& name, ConnectOptions options) {
  network.set_speed(kController, name, options_.near);
  options.number_name |= options.name.empty();
  if (options.name.empty()) options.name = name;
  return internal::connect_on(reactor_, network.endpoint(name), "sim:controller", options);
}

Client SimCluster::attach(const std::string& endpoint, const ConnectOptions& options) {
  network.set_speed(kController, endpoint, options_.near);
  return internal::attach_on(reactor_, network.endpoint(endpoint), "sim:controller", options);
}

void SimCluster::kill(int host) {
  network.break_connections(host_name(host));
  executors[at(host)].reset();
}

void SimCluster::start_again(int host) {
  GW_REQUIRE(!alive(host), "simulated cluster: ", host_name(host), " is still there");
  start_executor(host);
}

void SimCluster::vanish(int host) {
  network.vanish(host_name(host));
  executors[at(host)].reset();
}

void SimCluster::stop(int host) {
  network.stop(host_name(host));
  processes_[at(host)]->stop();
  hosts_[at(host)]->stop();
}

void SimCluster::resume(int host) {
  hosts_[at(host)]->resume();
  processes_[at(host)]->resume();
  network.resume(host_name(host));
}

void SimCluster::stop_controller() {
  network.stop(kController);
  controller_process_.stop();
}

void SimCluster::resume_controller() {
  controller_process_.resume();
  network.resume(kController);
}

void SimCluster::cut_off_client(const std::string& name) {
  network.partition(name, kController);
  network.break_connections(name);
}

int64_t SimCluster::busy_ns() const {
  int64_t sum = 0;
  for (const auto& host : hosts_) sum += host->busy_ns();
  return sum;
}

}  // namespace gangway
