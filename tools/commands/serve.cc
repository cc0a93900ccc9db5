// `gangway controller` and `gangway executor`: serve until a signal tells them to stop, or until
// the process that started them or, for an executor, its controller has ended.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>

#include "controller/service/config_file.h"
#include "controller/service/service.h"
#include "executor/service/service.h"
#include "protocol/machine.h"
#include "protocol/token_file.h"
#include "runtime/observe/log.h"
#include "runtime/observe/trace.h"
#include "runtime/os/process.h"
#include "runtime/os/signals.h"
#include "runtime/os/user.h"
#include "tools/commands/command.h"
#include "tools/commands/gpus.h"

namespace gangway::tool {
namespace {

constexpr char kTraceHelp[] = "write a Chrome/Perfetto timeline of this process here at its end";

// Suspends until a signal arrives, the parent has gone, or `ended` is ready.
void wait_for_the_end(Reactor& reactor, const Future<void>& ended) {
  Signals signals(reactor, {SIGINT, SIGTERM});
  // Shared, since a wait may end, or fail, long after another one has ended the function.
  const auto stop = std::make_shared<Promise<void>>();
  const Future<void> stopped = stop->future();
  const auto finish = [stop] {
    if (!stop->is_set()) stop->set();
  };
  parent_gone(reactor).on_ready([finish](const Result<void>&) { finish(); });
  if (ended.valid()) ended.on_ready([finish](const Result<void>&) { finish(); });
  Fiber waiting = reactor.spawn("signals", [&] {
    try {
      signals.next();
      finish();
    } catch (const Error&) {  // Cancelled below.
    }
  });
  stopped.await();
  waiting.cancel();
  waiting.join();
}

// --trace FILE: records this thread while it lives, and writes the file at its end.
class TraceToFile {
 public:
  TraceToFile(Reactor& reactor, const std::string& path, const std::string& process) {
    if (path.empty()) return;
    file_.open(path, std::ios::binary);
    GW_REQUIRE(file_.good(), "--trace: can't write ", path);
    tracer_.emplace(reactor.clock(), process);
    attached_.emplace(&tracer_->add_row("reactor"));
  }
  ~TraceToFile() {
    if (tracer_) file_ << to_chrome_json({tracer_->drain()});
  }
  Tracer* tracer() { return tracer_ ? &*tracer_ : nullptr; }

 private:
  std::ofstream file_;
  std::optional<Tracer> tracer_;
  std::optional<TraceAttachment> attached_;
};

int serve_controller(ControllerServiceOptions options, const std::string& trace_path) {
  auto reactor = Reactor::make_real();
  return reactor->run([&] {
    TraceToFile trace(*reactor, trace_path, "controller");
    SocketNetwork network(*reactor);
    if (!options.address.starts_with("unix:")) {
      options.tokens =
          std::make_shared<TokenTable>(token_file({}), own_user_name(), options.controller.log);
    }
    ControllerService service(*reactor, network, options);
    options.controller.log.info("listening", {{"address", service.address()}});
    std::printf("%s\n", service.address().c_str());
    std::fflush(stdout);
    wait_for_the_end(*reactor, {});
    return 0;
  });
}

int serve_executor(ExecutorServiceOptions options, const std::string& trace_path) {
  auto reactor = Reactor::make_real();
  return reactor->run([&] {
    TraceToFile trace(*reactor, trace_path, options.host.name);
    options.host.tracer = trace.tracer();
    SocketNetwork network(*reactor);
    ExecutorService service(*reactor, network, options);
    options.log.info("registered", {{"name", service.name()}, {"controller", options.controller}});
    wait_for_the_end(*reactor, service.disconnected());
    return 0;
  });
}

}  // namespace

void add_controller(CLI::App& app, const CommonOptions& common, Chosen& chosen) {
  auto* command = app.add_subcommand("controller", "Serve clients and executors at one address");
  auto options = std::make_shared<ControllerServiceOptions>();
  options->address = "127.0.0.1:7040";
  auto trace = std::make_shared<std::string>();
  command
      ->add_option("--listen", options->address,
                   "host:port, which asks for a token, or unix:PATH; port 0 picks one")
      ->capture_default_str();
  command
      ->add_option("--policy", options->controller.policy,
                   "who goes next where programs share devices")
      ->check(CLI::IsMember({"fifo", "fair", "priority"}))
      ->capture_default_str();
  auto timeout_s =
      std::make_shared<double>(static_cast<double>(options->controller.host_timeout_ms) / 1000.0);
  command
      ->add_option("--host-timeout", *timeout_s,
                   "seconds after which a host that says nothing is lost, with all that runs on it")
      ->check(CLI::Range(0.1, 86'400.0))
      ->capture_default_str();
  command->add_option("--trace", *trace, kTraceHelp);
  auto config = std::make_shared<std::string>();
  command->add_option("--config", *config,
                      "a JSON file with the quotas of owners (controller/service/config_file.h)");
  command->callback([&common, &chosen, options, timeout_s, trace, config] {
    chosen = [&common, options, timeout_s, trace, config] {
      if (!config->empty()) options->controller.quotas = read_config(*config).quotas;
      options->controller.host_timeout_ms = std::llround(*timeout_s * 1000);
      options->controller.log = Logs({.levels = common.log_level}).module("controller");
      return serve_controller(*options, *trace);
    };
  });
}

void add_executor(CLI::App& app, const CommonOptions& common, Chosen& chosen) {
  auto* command = app.add_subcommand("executor", "Offer this machine's devices to a controller");
  auto options = std::make_shared<ExecutorServiceOptions>();
  options->controller = "127.0.0.1:7040";
  options->host.name = this_machine().host;
  command->add_option("--connect", options->controller, "the controller's address")
      ->capture_default_str();
  add_timeout(*command, options->connect_timeout_ms);
  command->add_option("--name", options->host.name, "what to be called")->capture_default_str();
  command
      ->add_option("--island", options->host.island,
                   "the island that it lies in: hosts of one reach one another faster")
      ->capture_default_str();
  auto device = std::make_shared<std::string>("cpu");
  command->add_option("--device", *device, "the kind to offer")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  options->host.devices = 0;
  command->add_option("--devices", options->host.devices, "how many; default: 1, or all GPUs")
      ->check(CLI::Range(1, 256));
  command->add_option("--threads", options->host.threads,
                      "threads of each device; 0: cores / devices");
  command->add_option("--memory", options->host.memory_bytes,
                      "bytes of each device; 0: an equal share of the machine");
  auto trace = std::make_shared<std::string>();
  command->add_option("--trace", *trace, kTraceHelp);
  command->callback([&common, &chosen, options, device, trace] {
    chosen = [&common, options, device, trace] {
      if (*device == "cuda") offer_gpus(options->host);
      options->host.devices = std::max(options->host.devices, 1);
      options->log = Logs({.levels = common.log_level}).module("executor");
      return serve_executor(*options, *trace);
    };
  });
}

}  // namespace gangway::tool
