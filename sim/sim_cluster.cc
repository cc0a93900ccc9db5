#include "sim/sim_cluster.h"

#include "client/session.h"
#include "executor/devices/sim/unread_memory.h"

namespace gangway {

SimCluster::SimCluster(Reactor& reactor, SimClusterOptions options)
    : reactor_(reactor),
      options_(std::move(options)),
      order_log_(new_order_log()),
      landings_(new_landings()),
      memory_(options_.timed_only ? std::make_shared<UnreadMemory>(options_.memory_bytes)
                                  : nullptr),
      fabric_(std::make_shared<SimFabric>(reactor)),
      controller_process_(reactor, options_.time, options_.controller_rates),
      network(reactor,
              {.delay = options_.near.delay, .jitter = options_.near.jitter, .replay = &replay_}),
      controller{make_controller()} {
  GW_REQUIRE(options_.hosts >= 1 && options_.islands >= 1 && options_.islands <= options_.hosts,
             "simulated cluster: expected at least one host, and one for each island, got ",
             options_.hosts, " hosts and ", options_.islands, " islands");
  for (int host = 0; host < options_.hosts; ++host) add_host(host);
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

std::shared_ptr<OrderLog> SimCluster::new_order_log() const {
  return options_.order_log == nullptr ? checked_order_log() : options_.order_log;
}

std::shared_ptr<LandingLog> SimCluster::new_landings() const {
  if (options_.new_landings != nullptr) return options_.new_landings();
  return landing_log_of_test == nullptr ? nullptr : landing_log_of_test();
}

std::unique_ptr<ControllerService> SimCluster::make_controller() {
  return std::make_unique<ControllerService>(
      reactor_, network.endpoint(kController),
      ControllerServiceOptions{.address = "sim:controller",
                               .controller = {.host_timeout_ms = options_.host_timeout_ms,
                                              .lease_ms = options_.lease_ms,
                                              .checkpoint_folder = options_.checkpoint_folder,
                                              .policy = options_.policy,
                                              .overlay_memory = options_.overlay_memory,
                                              .owner_bounds = options_.owner_bounds,
                                              .charge_log = options_.charge_log,
                                              .landings = landings_},
                               .frames = frames_of(controller_process_),
                               .state = options_.state_folder.empty()
                                            ? nullptr
                                            : std::make_shared<StateDir>(options_.state_folder)});
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
                                      .suspended_bytes = options_.suspended_bytes,
                                      .threads = 1,
                                      .tracer = options_.tracer,
                                      .order_log = order_log_,
                                      .landings = landings_,
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

void SimCluster::end_controller() {
  resume_controller();
  network.break_connections(kController);
  controller.service.reset();
}

void SimCluster::start_controller() {
  GW_REQUIRE(!has_controller(), "simulated cluster: its controller is still there");
  // It counts runs, tickets and copies from the beginning.
  order_log_ = new_order_log();
  landings_ = new_landings();
  controller.service = make_controller();
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
