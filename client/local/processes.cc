// A local cluster of real processes: one controller and the executors, children of this one.
//
// The children can't outlive this process (runtime/os/process.h). However it ends, no file of
// theirs stays behind: socket, shared memory, logs and traces have no names in the file system.
// Checkpoints that the cluster keeps have names, in a folder that is there once one is kept, and
// that goes with the cluster unless the client is killed.
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <span>
#include <vector>

#include "client/cluster.h"
#include "protocol/rpc_values.h"
#include "runtime/base/environment.h"
#include "runtime/base/hash.h"
#include "runtime/base/paths.h"
#include "runtime/fibers/await.h"
#include "runtime/net/server.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/random_bytes.h"

namespace gangway::internal {

// Null unless the program was built with the installed package (cmake/installed_tool.cc).
extern const char* const kInstalledTool __attribute__((weak));

namespace {

// Finds the `gangway` tool: the one that GANGWAY_TOOL names, else one beside this program, in the
// tree that it was built in, of the installed package that it was built with, or on the path.
std::string find_tool() {
  if (const auto said = environment_value("GANGWAY_TOOL")) return *said;
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const auto& candidate :
       {self / "gangway", self / "../tools/gangway", self / "../bin/gangway",
        self / "../../tools/gangway",
        std::filesystem::path(&kInstalledTool != nullptr ? kInstalledTool : "")}) {
    if (access(candidate.c_str(), X_OK) != 0) continue;
    std::error_code error;
    if (!std::filesystem::is_regular_file(candidate, error)) continue;
    const auto whole = std::filesystem::canonical(candidate, error);
    return (error ? candidate : whole).string();
  }
  return "gangway";
}

std::string unique_name() {
  std::array<uint64_t, 2> random{};
  fill_random(std::as_writable_bytes(std::span(random)));
  return "gangway-" + to_string(Hash128{random[0], random[1]});
}

// A folder that others create; it is removed with all in it when this goes.
struct RemovedFolder {
  const std::filesystem::path path = temp_folder() / unique_name();
  ~RemovedFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

std::string last_lines(const AnonymousFile& file) {
  const std::string text = file.text();
  constexpr size_t kMost = 2000;
  return text.size() > kMost ? text.substr(text.size() - kMost) : text;
}

// Time for a member to write its trace. A slower member is killed, and missing from the timeline.
constexpr int64_t kOrderlyEndNs = 5'000'000'000;

class Processes final : public Cluster {
 public:
  Processes(Reactor& reactor, const LocalShape& shape, const ConnectOptions& options)
      : reactor_(reactor),
        network_(reactor),
        address_("unix:@" + unique_name()),
        traced_(!options.trace_path.empty()) {
    const std::string tool = find_tool();
    const bool cards = options.device == "cuda";
    start("controller", {tool, "controller", "--listen", address_, "--checkpoint-dir",
                         checkpoints_.path.string()});
    for (int i = 0; i < shape.executors; ++i) {
      const std::string name = "host-" + std::to_string(i);
      const int64_t memory = cards ? options.memory_bytes : memory_share(shape, options);
      start(name, {tool, "executor", "--connect", address_, "--name", name, "--device",
                   options.device, "--island", island_name(i, shape, options), "--devices",
                   std::to_string(shape.devices), "--threads", std::to_string(thread_share(shape)),
                   "--memory", std::to_string(memory), "--end-with-controller", "--trust-all"});
    }
    wait_for_executors(static_cast<uint32_t>(shape.executors), options.timeout_ms);
  }
  ~Processes() override {
    for (Child& child : children_) child.process->signal(SIGTERM);
  }

  std::vector<std::string> stop() override {
    std::vector<std::string> traces;
    if (!traced_) {
      kill_all();
      return traces;
    }
    // The controller is ended last, since executors end by themselves when their controller has.
    end_orderly(std::span(children_).subspan(1));
    end_orderly(std::span(children_).first(1));
    for (const Child& child : children_) traces.push_back(child.trace.text());
    return traces;
  }

  Network& network() override { return network_; }
  const std::string& address() const override { return address_; }

 private:
  struct Child {
    std::string name;
    AnonymousFile log, trace;
    std::unique_ptr<ChildProcess> process;
  };

  void start(const std::string& name, std::vector<std::string> arguments) {
    AnonymousFile log(name + ".log"), trace(name + ".trace");
    if (traced_) arguments.insert(arguments.end(), {"--trace", trace.path()});
    try {
      auto process = std::make_unique<ChildProcess>(ChildOptions{
          .arguments = std::move(arguments), .output_file = log.path(), .reactor = &reactor_});
      children_.push_back({name, std::move(log), std::move(trace), std::move(process)});
    } catch (const Error& error) {
      // kInvalid: the program can't be started. No other error depends on which program it is.
      throw Error(error.kind(), cat("local cluster: ", error.message()), {.host = name},
                  error.kind() == ErrorKind::kInvalid
                      ? "say where the gangway tool is with GANGWAY_TOOL, or put it on the path"
                      : error.hint());
    }
  }

  // Other fibers have their turn meanwhile, since the system takes long to take much memory back.
  void kill_all() {
    for (Child& child : children_) child.process->signal(SIGKILL);
    for (Child& child : children_) child.process->exited(reactor_).await();
  }

  void end_orderly(std::span<Child> children) {
    for (Child& child : children) child.process->signal(SIGTERM);
    const int64_t deadline_ns = reactor_.clock().now_ns() + kOrderlyEndNs;
    for (Child& child : children) {
      while (!child.process->poll() && reactor_.clock().now_ns() < deadline_ns) {
        WaitQueue().wait_until_ns("for a child to end", reactor_.clock().now_ns() + 2'000'000);
      }
    }
  }

  void require_running() {
    for (Child& child : children_) {
      const std::optional<ExitStatus> status = child.process->poll();
      if (!status) continue;
      throw Error(ErrorKind::kUnavailable,
                  cat("local cluster: its ", child.name, " ", to_string(*status), ": ",
                      last_lines(child.log)),
                  {.host = child.name});
    }
  }

  // Executors register in any order; the controller says how many are there.
  void wait_for_executors(uint32_t wanted, int64_t timeout_ms) {
    const int64_t deadline_ns = reactor_.clock().now_ns() + timeout_ms * 1'000'000;
    std::optional<Connection> connection;
    while (true) {
      require_running();
      uint32_t there = 0;
      if (!connection) connection = try_connect();
      if (connection) {
        auto request = connection->bootstrap<wire::Controller>().statusRequest();
        write(request.initVersion(), Version{});
        there = await<capnp::Response<wire::Controller::StatusResults>>(request.send())
                    .getHosts()
                    .size();
      }
      if (there >= wanted) return;
      if (reactor_.clock().now_ns() > deadline_ns) {
        throw Error(ErrorKind::kUnavailable, cat("local cluster: only ", there, " of ", wanted,
                                                 " executors came within ", timeout_ms, " ms"));
      }
      WaitQueue().wait_until_ns("for executors", reactor_.clock().now_ns() + 2'000'000);
    }
  }

  std::optional<Connection> try_connect() {
    try {
      return Connection::connect(reactor_, network_, address_,
                                 {.time_limit = std::chrono::milliseconds(20)});
    } catch (const Error&) {
      return std::nullopt;  // Not listening yet.
    }
  }

  Reactor& reactor_;
  SocketNetwork network_;
  std::string address_;
  bool traced_;
  const RemovedFolder checkpoints_;  // Checkpoints that the cluster keeps.
  std::vector<Child> children_;
};

}  // namespace

std::unique_ptr<Cluster> start_processes(Reactor& reactor, const LocalShape& shape,
                                         const ConnectOptions& options) {
  return std::make_unique<Processes>(reactor, shape, options);
}

}  // namespace gangway::internal
