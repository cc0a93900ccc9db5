// A controller and hosts on cards in this process, its clients, and the losses of a language
// model's first training steps on such a cluster.
//
// Threads: the reactor's; creating and destroying a cluster, and connect(), suspend.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "executor/host/host.h"
#include "programs/train/language_model.h"

namespace gangway {

class ControllerService;
class ExecutorService;
class SimNetwork;

// Close its clients before it is destroyed.
class CudaCluster {
 public:
  // Hosts have 32 MiB for each device unless the options say otherwise, and are named by their
  // index: "host-0".
  CudaCluster(Reactor& reactor, std::vector<HostOptions> hosts, const std::string& policy = "fair");
  ~CudaCluster();
  CudaCluster(const CudaCluster&) = delete;

  Client connect(const std::string& name);

 private:
  Reactor& reactor_;
  const std::unique_ptr<SimNetwork> network_;
  const std::unique_ptr<ControllerService> controller_;
  std::vector<std::unique_ptr<ExecutorService>> executors_;
};

// Calls `body` with a client of a cluster of one host.
void with_cluster(HostOptions host, const std::function<void(const Client&)>& body);

std::vector<float> losses_on(const HostOptions& host, const programs::LanguageModelConfig& config,
                             int64_t steps, float lr = 0.01f);

}  // namespace gangway
