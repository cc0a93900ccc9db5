// A local cluster of real processes: one controller and the executors, children of this one.
//
// They can't outlive it (runtime/process.h), they talk over a Unix socket in a private folder, and
// nothing they share has a name that would stay behind.
#include <unistd.h>
#include <csignal>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "client/cluster.h"
#include "protocol/rpc_values.h"
#include "runtime/await.h"
#include "runtime/process.h"
#include "runtime/rpc/server.h"
#include "runtime/temp_dir.h"

namespace gangway::internal {
namespace {

// The `gangway` tool: said, beside this program, in the tree that it was built in, or on the path.
std::string find_tool() {
  if (const char* said = std::getenv("GANGWAY_TOOL")) return said;
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const auto& candidate :
       {self / "gangway", self / "../tools/gangway", self / "../bin/gangway",
        self / "../../tools/gangway", std::filesystem::path(GANGWAY_INSTALLED_TOOL)}) {
    if (access(candidate.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(candidate)) {
      return std::filesystem::weakly_canonical(candidate).string();
    }
  }
  return "gangway";
}

std::string last_lines(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  constexpr size_t kMost = 2000;
  return text.size() > kMost ? text.substr(text.size() - kMost) : text;
}

class Processes final : public Cluster {
 public:
  Processes(Reactor& reactor, const LocalShape& shape, const ConnectOptions& options)
      : reactor_(reactor),
        network_(reactor),
        address_("unix:" + (folder_.path() / "controller.sock").string()) {
    const std::string tool = find_tool();
    start("controller", {tool, "controller", "--listen", address_});
    for (int i = 0; i < shape.executors; ++i) {
      const std::string name = "host-" + std::to_string(i);
      start(name, {tool, "executor", "--connect", address_, "--name", name, "--devices",
                   std::to_string(shape.devices), "--threads", std::to_string(thread_share(shape)),
                   "--memory", std::to_string(memory_share(shape, options))});
    }
    wait_for_executors(static_cast<uint32_t>(shape.executors), options.timeout_ms);
  }
  ~Processes() override {
    for (Child& child : children_) child.process->signal(SIGTERM);
  }

  Network& network() override { return network_; }
  const std::string& address() const override { return address_; }

 private:
  struct Child {
    std::string name;
    std::filesystem::path log;
    std::unique_ptr<ChildProcess> process;
  };

  void start(const std::string& name, std::vector<std::string> arguments) {
    const auto log = folder_.path() / (name + ".log");
    children_.push_back({name, log,
                         std::make_unique<ChildProcess>(ChildOptions{
                             .arguments = std::move(arguments), .output_file = log.string()})});
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
  TempDir folder_{"gangway"};
  SocketNetwork network_;
  std::string address_;
  std::vector<Child> children_;
};

}  // namespace

std::unique_ptr<Cluster> start_processes(Reactor& reactor, const LocalShape& shape,
                                         const ConnectOptions& options) {
  return std::make_unique<Processes>(reactor, shape, options);
}

}  // namespace gangway::internal
