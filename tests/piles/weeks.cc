#include "tests/piles/weeks.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "client/session.h"
#include "controller/programs/ended_logs.h"
#include "executor/devices/sim/sim_host.h"
#include "executor/links/sim_fabric.h"
#include "executor/service/lasting_executor.h"
#include "gangway.h"
#include "runtime/os/temp_dir.h"
#include "sim/sim_cluster.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kLeaseMs = 100;
constexpr int64_t kDevices = 4;

void pass(int64_t ns) {
  WaitQueue().wait_until_ns("for time to pass", Reactor::current().clock().now_ns() + ns);
}

// Adds x to a state. If it has a text it also reads tokens, and adds too little of them to change
// anything.
Program counting(const fs::path& text = {}) {
  ProgramBuilder b("counting", Mesh{{{"data", kDevices}}});
  const Value w = b.state("w", zeros(f32({64})));
  Value next = w + timed(b.input("x", f32()), 1000);  // Microseconds.
  if (!text.empty()) {
    const Value tokens = b.source(
        "tokens", {"text", {{"path", text.string()}, {"seed", int64_t{3}}, {"heldout", false}}},
        i32({2 * kDevices, 5}), {{"data", shard(0)}});
    next = next + mean(convert(tokens, DType::kF32)) * 1e-12;
  }
  b.update(w, next);
  b.output("sum", sum(next, {0}));
  return b.build();
}

size_t entries_of(const fs::path& folder) {
  std::error_code error;
  size_t count = 0;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    ++count;
  return count;
}

// Number of this process's mappings of shared memory.
size_t mapped_segments() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("/memfd:") != line.npos;
  return count;
}

// Removes the folders of ended programs, like `gangway checkpoint rm`.
void remove_of_ended(const fs::path& folder, const std::string& program) {
  std::error_code error;
  for (const auto& owner : fs::directory_iterator(folder, error)) {
    for (const auto& of : fs::directory_iterator(owner.path(), error)) {
      if (of.path().filename().string().starts_with(program)) fs::remove_all(of.path(), error);
    }
  }
}

void count_process(const fs::path& folder, Piles& piles) {
  piles["fibers"] = Reactor::current().live_fibers();
  piles["descriptors"] = entries_of("/proc/self/fd");
  piles["mapped segments"] = mapped_segments();
  piles["files"] = entries_of(folder);
}

// --- Lives of clients, programs and hosts

class Lives {
 public:
  Lives(SimCluster& cluster, uint64_t seed, Weeks& weeks)
      : cluster_(cluster), rng_(seed, 0x3EE45), weeks_(weeks) {
    std::ofstream(text_) << std::string(4000, 'x');
  }

  void live(int number) {
    remove_of_ended(cluster_.options().checkpoint_folder, "kept");
    const std::string name = cat("program-", number);
    try {
      if (number % 10 == 0) come_and_go(cat("pod-", number));
      const Client client = cluster_.connect(
          "client", {.name = number % 5 == 0 ? "kept" : name, .on_warning = [](const auto&) {}});
      use(client, number % 5 == 0);
      end(client, number % 4);
    } catch (const Error& error) {
      weeks_.problems += cat(name, ": ", error.what(), "\n");
    }
    cluster_.network.heal("client", SimCluster::kController);
    if (number % 4 == 3) {
      cluster_.kill(1);
      cluster_.start_again(1);
    }
    pass(3 * kLeaseMs * kMs);
  }

  Piles piles(const fs::path& folder) {
    Controller& controller = cluster_.controller.controller();
    pass(2000 * kMs);
    remove_of_ended(folder, "kept");
    controller.tables().hosts.names().forget_old(Reactor::current().clock().now_ns() +
                                                 HostNames::kForgetAfterNs);
    Piles piles = controller.census();
    count_process(folder, piles);
    piles["memories of links"] = cluster_.fabric().size();
    for (const auto& executor : cluster_.executors) {
      for (const auto& [name, count] : executor->census()) piles["hosts: " + name] += count;
      for (uint32_t d = 0; d < static_cast<uint32_t>(cluster_.options().devices_per_host); ++d)
        piles["bytes of devices"] += static_cast<size_t>(executor->host().bytes_in_use(d));
    }
    return piles;
  }

 private:
  void use(const Client& client, bool keeps) {
    const Slice slice = client.allocate({.devices = kDevices});
    const Executable step = slice.compile(counting(text_), {.name = "step"});
    if (keeps) slice.keep_checkpoints({.every = 2, .keep = 2});
    for (int i = 0; i < 5; ++i) step.run({{"x", 1.0f}});
    if (slice.read_state("w").as<float>()[0] != 5) weeks_.problems += "a wrong state\n";
    if (rng_.chance(0.5)) step.run({{"x", 1.0f}});
  }
  void end(const Client& client, int how) {
    if (how == 1) {
      cluster_.cut_off_client("client");
    } else if (how == 2) {
      const std::string name = client.name();
      client.detach();
      const Client other = cluster_.connect("other");
      other.stop_program(name, 100);
      return other.close();
    } else if (how == 3) {
      Fiber waits = Reactor::current().spawn("wait for devices", [client] {
        static_cast<void>(result_of([&] { client.allocate({.devices = 100, .wait_ms = 60'000}); }));
      });
      pass(kMs);
      client.close();
      return waits.join();
    }
    client.close();
  }
  // An executor comes under a new name and ends.
  void come_and_go(const std::string& name) {
    const ExecutorService pod(Reactor::current(), cluster_.network.endpoint("pod"),
                              {.controller = "sim:controller",
                               .host = {.name = name,
                                        .kind = DeviceKind::kSim,
                                        .devices = 1,
                                        .memory_bytes = 1 << 20,
                                        .threads = 1,
                                        .fabric = std::make_shared<SimFabric>(),
                                        .sim = std::make_shared<SimHost>()}});
    pass(kMs);
  }

  SimCluster& cluster_;
  Rng rng_;
  Weeks& weeks_;
  const TempDir folder_;
  const fs::path text_ = folder_.path() / "text";
};

// --- Controllers, one after another

class Controllers {
 public:
  Controllers(const fs::path& state, Weeks& weeks) : state_(state), weeks_(weeks) {
    for (size_t host = 0; host < 2; ++host) {
      executors_.push_back(std::make_unique<LastingExecutor>(
          reactor_, network_.endpoint(cat("machine-", host)),
          ExecutorServiceOptions{.controller = "sim:controller",
                                 .host = {.name = cat("e", host),
                                          .kind = DeviceKind::kSim,
                                          .devices = 2,
                                          .memory_bytes = 1 << 20,
                                          .threads = 1,
                                          .fabric = fabric_,
                                          .sim = std::make_shared<SimHost>()}},
          ControllerWait{}));
    }
  }

  // A controller starts, resumes the programs of the one before it, and is asked to end.
  void live(int number) {
    ControllerService controller(
        reactor_, network_.endpoint("controller"),
        {.address = "sim:controller",
         .controller = {.checkpoint_folder = (state_ / "checkpoints").string()},
         .state = std::make_shared<StateDir>(state_.string())});
    if (number == 0) {
      detach_a_program();
    } else {
      see_it_go_on();
    }
    if (number % 3 == 0) run_another();
    remove_of_ended(state_ / "checkpoints", "another");
    controller.end_in_order(1000);
  }
  Piles piles() {
    pass(500 * kMs);
    Piles piles;
    count_process(state_, piles);
    return piles;
  }

 private:
  Client connect(const std::string& name) {
    return internal::connect_on(reactor_, network_.endpoint("client"), "sim:controller",
                                {.name = name, .on_warning = [](const auto&) {}});
  }
  void detach_a_program() {
    const Client client = connect("walker");
    const Slice slice = client.allocate({.devices = kDevices, .wait_ms = 60'000});
    const Executable step = slice.compile(counting(), {.name = "step"});
    slice.keep_checkpoints({.every = 500, .keep = 2});
    step.repeat(1 << 24, {{"x", 1.0f}});
    client.detach();
    pass(2000 * kMs);
  }
  void see_it_go_on() {
    for (int i = 0; i < 100; ++i) {
      pass(200 * kMs);
      try {
        const Client client =
            internal::attach_on(reactor_, network_.endpoint("client"), "sim:controller",
                                {.name = "walker", .on_warning = [](const auto&) {}});
        client.detach();
        return pass(1000 * kMs);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kOverloaded) throw;
      }
    }
    weeks_.problems += "the program did not go on\n";
  }
  void run_another() {
    const Client client = connect("another");
    {
      const Slice slice = client.allocate({.devices = kDevices, .wait_ms = 60'000});
      const Executable step = slice.compile(counting());
      slice.keep_checkpoints({.every = 2, .keep = 2});
      for (int i = 0; i < 5; ++i) step.run({{"x", 1.0f}}).wait();
    }
    client.close();
  }

  const fs::path state_;
  Weeks& weeks_;
  Reactor& reactor_ = Reactor::current();
  SimNetwork network_{reactor_};
  std::shared_ptr<SimFabric> fabric_ = std::make_shared<SimFabric>();
  std::vector<std::unique_ptr<LastingExecutor>> executors_;
};

// Lives until tables that keep the last few of something are full, such as logs of ended programs.
constexpr int kWarmUp = int{EndedLogs::kEndedMax} * 3 / 2, kWarmUpRestarts = 4;

}  // namespace

Weeks live(uint64_t seed, int lives) {
  Weeks weeks;
  const TempDir folder;
  const auto reactor = Reactor::make_simulated({.seed = seed});
  reactor->run([&] {
    SimCluster cluster(*reactor,
                       {.lease_ms = kLeaseMs, .checkpoint_folder = folder.path().string()});
    Lives all(cluster, seed, weeks);
    for (int i = 0; i < lives + kWarmUp; ++i) {
      if (i == kWarmUp) weeks.before = all.piles(folder.path());
      all.live(i);
    }
    weeks.after = all.piles(folder.path());
  });
  return weeks;
}

Weeks restart(uint64_t seed, int restarts) {
  Weeks weeks;
  const TempDir folder;
  const auto reactor = Reactor::make_simulated({.seed = seed});
  reactor->run([&] {
    Controllers all(folder.path() / "state", weeks);
    for (int i = 0; i < restarts + kWarmUpRestarts; ++i) {
      if (i == kWarmUpRestarts) weeks.before = all.piles();
      all.live(i);
    }
    weeks.after = all.piles();
  });
  return weeks;
}

std::string grown(const Weeks& weeks) {
  std::string text;
  Piles all = weeks.after;
  all.insert(weeks.before.begin(), weeks.before.end());
  for (const auto& [name, count] : all) {
    const auto of = [&key = name](const Piles& piles) {
      const auto found = piles.find(key);
      return found == piles.end() ? 0 : found->second;
    };
    if (of(weeks.before) != of(weeks.after))
      text += cat(name, ": ", of(weeks.after), ", before ", of(weeks.before), "; ");
  }
  return text;
}

}  // namespace gangway
