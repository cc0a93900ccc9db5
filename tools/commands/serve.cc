// `gangway controller` and `gangway executor`: serve until a signal asks them to stop, or until the
// process that started them has ended. How long an executor waits for its controller is one of its
// options.
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "controller/scheduler/policies/policy.h"
#include "controller/service/config_file.h"
#include "controller/service/service.h"
#include "executor/service/lasting_executor.h"
#include "protocol/machine.h"
#include "protocol/token_file.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/paths.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/observe/log.h"
#include "runtime/observe/trace.h"
#include "runtime/os/descriptor_limit.h"
#include "runtime/os/process.h"
#include "runtime/os/random_bytes.h"
#include "runtime/os/signals.h"
#include "runtime/os/trusted_files.h"
#include "runtime/os/user.h"
#include "runtime/tls/tls_files.h"
#include "tools/commands/command.h"
#include "tools/commands/gpus.h"
#include "tools/io/number.h"
#include "tools/io/output.h"
#include "tools/live/live_page.h"

namespace gangway::tool {
namespace {

// Events kept of each device, for the controller's page: some steps of a model of some hundred ops.
constexpr size_t kKeptEvents = 8192;

constexpr int kThreadsMax = 4096;
constexpr int64_t kMemoryBytesMax = int64_t{1} << 50;

constexpr char kTraceHelp[] = "write a Chrome/Perfetto timeline of this process here at its end";

// The end of a server. The first SIGINT or SIGTERM asks for it. A second one ends the server at
// once, and so does the end of the process that started it.
class Ends {
 public:
  // `on_hangup` is called for each SIGHUP. Null: SIGHUP asks for the end, unless this process
  // ignored the signal when it started, as nohup makes it do.
  Ends(Reactor& reactor, std::function<void()> on_hangup)
      : signals_(reactor, {SIGINT, SIGTERM, SIGHUP}),
        on_hangup_(std::move(on_hangup)),
        taking_(reactor) {
    parent_gone(reactor).on_ready([ends = ends_](const Result<void>&) { ends->at_once(); });
    taking_.spawn("signals", [this] {
      try {
        while (true) take(signals_.next());
      } catch (const Error&) {  // Its owner has ended.
      }
    });
  }
  Ends(const Ends&) = delete;

  // Suspends until the end is asked for, or `ended` is ready.
  void wait(const Future<void>& ended = {}) const {
    if (ended.valid()) ended.on_ready([ends = ends_](const Result<void>&) { ends->ask(); });
    ends_->asked.future().await();
  }
  StopToken at_once() const { return ends_->hurry.token(); }

 private:
  // Shared, since a wait may end long after this object does.
  struct State {
    void ask() {
      if (!asked.is_set()) asked.set();
    }
    void at_once() {
      ask();
      hurry.request_stop(Error(ErrorKind::kCancelled, "end at once"));
    }
    Promise<void> asked;
    StopSource hurry;
  };
  void take(int number) {
    if (number == SIGHUP && on_hangup_) return on_hangup_();
    if (number == SIGHUP && signals_.was_ignored(number)) return;
    // A terminal that goes away sends SIGHUP several times, which is no reason to hurry.
    if (!ends_->asked.is_set()) return ends_->ask();
    if (number != SIGHUP) ends_->at_once();
  }

  Signals signals_;
  const std::function<void()> on_hangup_;
  const std::shared_ptr<State> ends_ = std::make_shared<State>();
  FiberGroup taking_;  // The last member: its fiber uses the others.
};

// --trace FILE: records this thread while it lives, and writes the file at its end.
class TraceToFile {
 public:
  // `failed` gets the error of the file when this ends.
  TraceToFile(Reactor& reactor, const std::string& path, const std::string& process,
              std::optional<Error>& failed)
      : path_(path), failed_(failed) {
    if (path.empty()) return;
    errno = 0;
    file_.open(path, std::ios::binary);
    if (!file_.good()) fail_file("write the trace", path, errno);
    tracer_.emplace(reactor.clock(), process);
    attached_.emplace(&tracer_->add_row("reactor"));
  }
  ~TraceToFile() {
    if (!tracer_) return;
    errno = 0;
    file_ << to_chrome_json({tracer_->drain()});
    file_.close();
    const int number = errno != 0 ? errno : EIO;
    const Result<void> written = result_of([&] {
      if (!file_.good()) fail_file("write the trace", path_, number);
    });
    if (!written.ok()) failed_ = written.error();
  }
  Tracer* tracer() { return tracer_ ? &*tracer_ : nullptr; }

 private:
  const std::string path_;
  std::optional<Error>& failed_;
  std::ofstream file_;
  std::optional<Tracer> tracer_;
  std::optional<TraceAttachment> attached_;
};

// Returns an absolute path: programs' folders lie in the folder, and executors get its path.
std::string checkpoint_folder(const std::string& chosen, const std::string& state) {
  if (chosen.empty() && state.empty()) return {};
  const std::filesystem::path folder =
      chosen.empty() ? std::filesystem::path(state) / "checkpoints" : std::filesystem::path(chosen);
  const std::filesystem::path whole = absolute_path(folder).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).string();
}

struct ControllerPlaces {
  std::string page;     // Address of the page for browsers; empty: none.
  std::string trace;    // File for a timeline of the process; empty: none.
  std::string config;   // File with the owners' quotas; empty: none.
  double grace_s = 10;  // Time for programs to end once the controller must end.
};

// Reads the config file again, after a SIGHUP. A file with a mistake changes nothing.
void read_config_again(ControllerService& service, const std::string& path, const Logger& log) {
  try {
    service.set_quotas(read_config(path).quotas);
    log.info("the config is read again", {{"file", path}});
  } catch (const Error& error) {
    log.error("the config is not read again: the quotas stay as they were",
              {{"why", error.message()}});
  }
}

// The address at which browsers find a listener. One that is bound to all of the machine's has
// none of its own: under TLS the name in the certificate stands for it.
std::string url_of(const Network& network, const std::string& address) {
  if (!network.encrypts(address)) return cat("http://", address);
  const size_t port = address.rfind(':');
  const std::string host = address.substr(0, port);
  const bool is_any = host == "0.0.0.0" || host == "[::]";
  return cat("https://", is_any ? network.certificate()->name.name : host, address.substr(port));
}

// Says that a renewed certificate can't be used, which nobody would see before the old one ends.
OnTrouble certificate_warning(const Logger& log) {
  return [log](const Error& why) {
    log.error("the certificate is not read again: the one before stays in use",
              {{"why", why.message()}});
  };
}

int serve_controller(ControllerServiceOptions options, const ControllerPlaces& places) {
  // A bound for each owner, so that none takes all: a client has two connections, and executors
  // need some too.
  uint64_t& connections =
      options.controller.owner_bounds[static_cast<size_t>(OwnerResource::kConnections)];
  connections = std::min(connections, std::max<uint64_t>(raise_descriptor_limit().soft / 4, 1));
  auto reactor = Reactor::make_real();
  std::optional<Error> untraced;
  const int status = reactor->run([&] {
    TraceToFile trace(*reactor, places.trace, "controller", untraced);
    SocketNetwork network(*reactor, tls_folder({}), certificate_warning(options.controller.log));
    const auto is_tcp = [](const std::string& at) {
      return !at.empty() && !at.starts_with("unix:");
    };
    if (is_tcp(options.address) || is_tcp(options.metrics_address) || is_tcp(places.page)) {
      options.tokens =
          std::make_shared<TokenTable>(token_file({}), own_user_name(), options.controller.log);
    }
    ControllerService service(*reactor, network, options);
    std::function<void()> on_hangup;
    if (!places.config.empty())
      on_hangup = [&] { read_config_again(service, places.config, options.controller.log); };
    const Ends ends(*reactor, on_hangup);  // Before anybody is told that this process is there.
    options.controller.log.info("listening", {{"address", service.address()}});
    print_line(service.address());
    if (!service.metrics_address().empty())
      print_line(cat("metrics: ", url_of(network, service.metrics_address()), "/metrics"));
    std::optional<LivePage> page;
    if (!places.page.empty()) {
      page.emplace(*reactor, network, places.page, service, options.tokens, options.controller.log);
      // A user who has this address may do what the controller's user may. It is therefore printed
      // here, and not logged.
      print_line(cat("page: ", url_of(network, page->address()),
                     "/?token=", to_text(read_token_file(token_file({})))));
    }
    ends.wait();
    options.controller.log.info("was told to end");
    service.end_in_order(std::llround(places.grace_s * 1000), ends.at_once());
    return 0;
  });
  if (untraced) throw Error(*untraced);
  return status;
}

// Returns a random seed, which no other process has.
uint64_t new_seed() {
  uint64_t seed = 0;
  fill_random(std::as_writable_bytes(std::span(&seed, 1)));
  return seed;
}

int serve_executor(ExecutorServiceOptions options, const ControllerWait& wait,
                   const std::string& trace_path) {
  raise_descriptor_limit();
  auto reactor = Reactor::make_real(new_seed());
  std::optional<Error> untraced;
  const int status = reactor->run([&] {
    TraceToFile trace(*reactor, trace_path, options.host.name, untraced);
    options.host.tracer = trace.tracer();
    options.kept_events = kKeptEvents;
    SocketNetwork network(*reactor, tls_folder({}), certificate_warning(options.log));
    LastingExecutor executor(*reactor, network, options, wait);
    const Future<void> ended = executor.ended();
    Ends(*reactor, nullptr).wait(ended);
    if (ended.ready()) ended.await();  // Throws why.
    return 0;
  });
  if (untraced) throw Error(*untraced);
  return status;
}

}  // namespace

void add_controller(CLI::App& app, const CommonOptions& common, Chosen& chosen) {
  auto* command = app.add_subcommand("controller", "Serve clients and executors at one address");
  auto options = std::make_shared<ControllerServiceOptions>();
  options->address = "127.0.0.1:7040";
  auto places = std::make_shared<ControllerPlaces>();
  command
      ->add_option("--listen", options->address,
                   "host:port, which asks for a token or, by --tls, a certificate; or unix:PATH; "
                   "port 0 picks one")
      ->capture_default_str();
  command->add_option("--metrics", options->metrics_address,
                      "host:port at which Prometheus reads its metrics, with a token; port 0 picks "
                      "one; default: nowhere");
  command->add_option("--page", places->page,
                      "host:port at which a browser shows its programs, live, at the address that "
                      "is printed, which holds your token; port 0 picks one; default: nowhere");
  command
      ->add_option("--policy", options->controller.policy,
                   "who goes next where programs share devices")
      ->check(CLI::IsMember(policy_names()))
      ->capture_default_str();
  command->add_flag("--overlay-memory", options->controller.overlay_memory,
                    "lay the temporaries of programs over one another, which take turns of whole "
                    "runs then: a device needs room for the largest, not for all");
  auto timeout_s =
      std::make_shared<double>(static_cast<double>(options->controller.host_timeout_ms) / 1000.0);
  command
      ->add_option("--host-timeout", *timeout_s,
                   "seconds after which a host that says nothing is lost, with all that runs on it")
      ->check(real_number(0.1, 86'400))
      ->capture_default_str();
  auto lease_s =
      std::make_shared<double>(static_cast<double>(options->controller.lease_ms) / 1000.0);
  command
      ->add_option("--lease", *lease_s,
                   "seconds for which a client that lost its connection keeps what it holds")
      ->check(real_number(0, 86'400))
      ->capture_default_str();
  command->add_option("--trace", places->trace, kTraceHelp);
  auto state = std::make_shared<std::string>();
  command->add_option(
      "--state-dir", *state,
      "a folder of its own, where what outlives it lies: names of hosts, a log of programs, and "
      "programs that go on without a client");
  auto checkpoints = std::make_shared<std::string>();
  command->add_option(
      "--checkpoint-dir", *checkpoints,
      "where checkpoints of programs that ask for them lie, OWNER/PROGRAM/step-N; default: "
      "checkpoints/ in --state-dir");
  command->add_option("--config", places->config,
                      "a JSON file with the quotas of owners (controller/service/config_file.h), "
                      "which is read again at a SIGHUP");
  command
      ->add_option("--stop-grace", places->grace_s,
                   "seconds that clients have to end their programs, and checkpoints to get to the "
                   "disk, when it is told to end (SIGTERM, Ctrl-C); a second time ends it at once")
      ->check(real_number(0, 86'400))
      ->capture_default_str();
  command->callback([&common, &chosen, options, timeout_s, lease_s, places, state, checkpoints] {
    chosen = [&common, options, timeout_s, lease_s, places, state, checkpoints] {
      if (!places->config.empty()) options->controller.quotas = read_config(places->config).quotas;
      options->controller.host_timeout_ms = std::llround(*timeout_s * 1000);
      options->controller.lease_ms = std::llround(*lease_s * 1000);
      options->controller.log = Logs({.levels = common.log_level}).module("controller");
      if (!state->empty()) options->state = std::make_shared<StateDir>(*state);
      options->controller.checkpoint_folder = checkpoint_folder(*checkpoints, *state);
      return serve_controller(*options, *places);
    };
  });
}

// Libraries that programs may call.
struct Trust {
  std::vector<std::filesystem::path> folders;
  bool all = false;
};

std::shared_ptr<Trust> add_trust(CLI::App& command) {
  auto trust = std::make_shared<Trust>();
  auto* folders = command.add_option(
      "--trust", trust->folders,
      "a folder whose libraries (.so) programs may call, as they are now, and whose files those of "
      "other owners may read; again for more of them");
  command
      .add_flag("--trust-all", trust->all,
                "any library and file that this user can read; for a cluster of one user")
      ->excludes(folders);
  return trust;
}

// Under TLS an executor has the name that its certificate gives it, unless its user says another,
// which the controller then refuses.
void take_certified_name(ExecutorServiceOptions& options) {
  const std::string folder = tls_folder({});
  if (folder.empty() || options.name_is_chosen || options.controller.starts_with("unix:")) return;
  options.host.name = read_tls_files(folder).own.name.name;
}

void add_executor(CLI::App& app, const CommonOptions& common, Chosen& chosen) {
  auto* command = app.add_subcommand("executor", "Offer this machine's devices to a controller");
  auto options = std::make_shared<ExecutorServiceOptions>();
  options->controller = "127.0.0.1:7040";
  options->host.name = this_machine().host;
  command->add_option("--connect", options->controller, "the controller's address")
      ->capture_default_str();
  auto wait_s = std::make_shared<double>(-1);
  command
      ->add_option("--wait-for-controller", *wait_s,
                   "seconds without a controller after which it ends; default: it waits for ever")
      ->check(real_number(0, 1e9));
  auto wait = std::make_shared<ControllerWait>();
  command->add_flag("--end-with-controller", wait->is_ended_with_first,
                    "end when the controller has gone, or counts this executor as lost");
  auto* name = command->add_option(
      "--name", options->host.name,
      "what to be called, which no other executor may be; default: "
      "that of its certificate (--tls), or its machine's name, numbered where that "
      "is taken");
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
      ->check(whole_number(1, 256));
  command
      ->add_option("--threads", options->host.threads, "threads of each device; 0: cores / devices")
      ->check(whole_number(0, kThreadsMax));
  command
      ->add_option("--memory", options->host.memory_bytes,
                   "bytes of each device; 0: an equal share of the machine")
      ->check(whole_number(0, kMemoryBytesMax));
  command
      ->add_option("--suspended-memory", options->host.suspended_bytes,
                   "bytes of host memory for states of suspended programs and for texts that "
                   "programs read, both together; 0: half of the host's memory")
      ->check(whole_number(0, kMemoryBytesMax));
  const std::shared_ptr<Trust> trust = add_trust(*command);
  auto trace = std::make_shared<std::string>();
  command->add_option("--trace", *trace, kTraceHelp);
  command->callback([&common, &chosen, options, device, trust, trace, wait_s, wait, name] {
    options->name_is_chosen = name->count() > 0;
    chosen = [&common, options, device, trust, trace, wait_s, wait] {
      take_certified_name(*options);
      if (!trust->all) options->host.trusted = std::make_shared<const TrustedFiles>(trust->folders);
      if (*wait_s >= 0) wait->limit_ms = std::llround(*wait_s * 1000);
      if (*device == "cuda") offer_gpus(options->host);
      options->host.devices = std::max(options->host.devices, 1);
      options->log = Logs({.levels = common.log_level}).module("executor");
      return serve_executor(*options, *wait, *trace);
    };
  });
}

}  // namespace gangway::tool
