// A whole cluster on the client's own reactor: for tests, and where processes are not wanted.
#include <memory>
#include <vector>

#include "client/cluster.h"
#include "controller/service/service.h"
#include "executor/service/service.h"
#include "runtime/net/sim_network.h"
#include "runtime/observe/trace.h"
#include "runtime/os/temp_dir.h"

namespace gangway::internal {
namespace {

class InProcess final : public Cluster {
 public:
  InProcess(Reactor& reactor, const LocalShape& shape, const ConnectOptions& options)
      : network_(reactor),
        controller_(reactor, network_.endpoint("controller"),
                    {.address = "sim:controller",
                     .controller = {.checkpoint_folder = checkpoints_.path().string()}}) {
    const std::shared_ptr<OrderLog> order_log = checked_order_log();
    for (int i = 0; i < shape.executors; ++i) {
      const std::string name = "host-" + std::to_string(i);
      if (!options.trace_path.empty()) {
        tracers_.push_back(std::make_unique<Tracer>(reactor.clock(), name));
      }
      executors_.push_back(std::make_unique<ExecutorService>(
          reactor, network_.endpoint(name),
          ExecutorServiceOptions{
              .controller = "sim:controller",
              .host = {.name = name,
                       .island = island_name(i, shape, options),
                       .devices = shape.devices,
                       .memory_bytes = memory_share(shape, options),
                       .threads = thread_share(shape),
                       .tracer = tracers_.empty() ? nullptr : tracers_.back().get(),
                       .order_log = order_log}}));
    }
  }
  ~InProcess() override { end_executors(); }

  Network& network() override { return network_.endpoint("client"); }
  const std::string& address() const override { return controller_.address(); }

  std::vector<std::string> stop() override {
    end_executors();
    std::vector<std::string> traces;
    for (const auto& tracer : tracers_) {
      TraceDump dump = tracer->drain();
      // Each trace has rows of its own, though all are one process.
      dump.pid = static_cast<int64_t>(traces.size()) + 1;
      traces.push_back(to_chrome_json({dump}));
    }
    return traces;
  }

 private:
  void end_executors() {
    while (!executors_.empty()) executors_.pop_back();
  }

  SimNetwork network_;
  const TempDir checkpoints_;  // Checkpoints that the cluster keeps.
  ControllerService controller_;
  std::vector<std::unique_ptr<Tracer>> tracers_;  // One for each executor.
  std::vector<std::unique_ptr<ExecutorService>> executors_;
};

}  // namespace

std::unique_ptr<Cluster> start_in_process(Reactor& reactor, const LocalShape& shape,
                                          const ConnectOptions& options) {
  return std::make_unique<InProcess>(reactor, shape, options);
}

}  // namespace gangway::internal
