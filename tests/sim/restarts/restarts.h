// A cluster whose controller comes and goes, over a folder of state or without one, while its
// executors wait for the next one.
//
// Threads: the reactor's, in a fiber.
// Ownership: the reactor outlives it; clients are closed before it goes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/session.h"
#include "controller/service/service.h"
#include "executor/devices/sim/sim_host.h"
#include "executor/links/sim_fabric.h"
#include "executor/service/lasting_executor.h"
#include "runtime/net/sim_network.h"
#include "tests/support/temp_folder.h"

namespace gangway::restarts_test {

inline constexpr int64_t kMemory = 8 << 20;

// A cluster of two hosts with two devices each, whose controller comes and goes.
class Restarts {
 public:
  explicit Restarts(Reactor& reactor, const ControllerWait& wait = {})
      : reactor_(reactor), network_(reactor) {
    for (size_t host = 0; host < 2; ++host) start_executor(host, wait);
  }

  void start_controller(std::shared_ptr<StateDir> state = nullptr, ControllerOptions options = {}) {
    controller_.emplace(reactor_, network_.endpoint("controller"),
                        ControllerServiceOptions{.address = "sim:controller",
                                                 .controller = std::move(options),
                                                 .state = std::move(state)});
  }
  Controller& controller() { return controller_->controller(); }
  // Forgets lost hosts, which otherwise happens after a day.
  void forget_lost_hosts() {
    controller_->controller().tables().hosts.names().forget_old(reactor_.clock().now_ns() +
                                                                HostNames::kForgetAfterNs);
  }
  const HostNames& host_names() { return controller_->controller().tables().hosts.names(); }
  void kill_controller() {
    network_.break_connections("controller");
    controller_.reset();
  }
  // `told`: gets the client's warnings.
  Client connect(const std::string& name, std::vector<std::string>* told = nullptr) {
    ConnectOptions options{.name = name};
    if (told != nullptr)
      options.on_warning = [told](const std::string& line) { told->push_back(line); };
    return internal::connect_on(reactor_, network_.endpoint(name), "sim:controller", options);
  }
  Client attach(const std::string& endpoint, const std::string& name) {
    return internal::attach_on(reactor_, network_.endpoint(endpoint), "sim:controller",
                               {.name = name, .on_warning = [](const std::string&) {}});
  }
  void pass(std::chrono::nanoseconds time) const {
    WaitQueue().wait_until_ns("for time to pass", reactor_.clock().now_ns() + time.count());
  }
  // Names of the connected hosts.
  std::set<std::string> names() {
    std::set<std::string> names;
    for (const auto& [id, host] : controller_->controller().tables().hosts.all()) {
      if (host.peer != nullptr) names.insert(host.info.name);
    }
    return names;
  }
  void end_executor(size_t host) { executors_[host].reset(); }
  // Its process reads and writes nothing until it is resumed.
  void stop_executor(size_t host) { network_.stop(machine_name(host)); }
  void resume_executor(size_t host) { network_.resume(machine_name(host)); }
  LastingExecutor& executor(size_t host) { return *executors_[host]; }
  void start_executor(size_t host, const ControllerWait& wait = {}) {
    // The old and the new executor ask for the same name.
    executors_.resize(std::max(executors_.size(), host + 1));
    executors_[host] = std::make_unique<LastingExecutor>(
        reactor_, network_.endpoint(machine_name(host)),
        ExecutorServiceOptions{.controller = "sim:controller",
                               .host = {.name = "e",
                                        .kind = DeviceKind::kSim,
                                        .devices = 2,
                                        .memory_bytes = kMemory,
                                        .threads = 1,
                                        .fabric = fabric_,
                                        .sim = std::make_shared<SimHost>()}},
        wait);
  }

 private:
  static std::string machine_name(size_t host) { return cat("machine-", host); }

  Reactor& reactor_;
  SimNetwork network_;
  std::shared_ptr<SimFabric> fabric_ = std::make_shared<SimFabric>(reactor_);
  std::optional<ControllerService> controller_;
  std::vector<std::unique_ptr<LastingExecutor>> executors_;
};

class StateDirRestartTest : public FolderTest {
 protected:
  std::shared_ptr<StateDir> state() const { return std::make_shared<StateDir>(folder_ / "state"); }
};

}  // namespace gangway::restarts_test
