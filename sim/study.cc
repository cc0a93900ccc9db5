#include "sim/study.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "client/client.h"
#include "runtime/fibers/fiber_group.h"

namespace gangway {
namespace {

// Names that tell the programs apart, since devices count by them.
void make_names_unique(std::vector<Program>& programs) {
  std::map<std::string, int> seen;
  for (Program& program : programs) {
    const int count = ++seen[program.name];
    if (count > 1) program.name += "#" + std::to_string(count);
  }
}

// One program and its client.
class Runner {
 public:
  Runner(Reactor& reactor, SimCluster& cluster, const StudyOptions& options, const Program& program)
      : reactor_(reactor), cluster_(cluster), options_(options), program_(program) {
    report.name = program.name;
    for (const ProgramSlice& slice : program.slices) report.devices += slice.mesh.devices();
  }

  ProgramReport report;
  ProgramGraph graph;
  int64_t first_ns = 0, last_ns = 0;  // Begin and end of its runs.

  // Suspends.
  void install(const std::string& client_name, const Share& share) {
    try {
      client_.emplace(cluster_.connect(client_name, {.weight = share.weight,
                                                     .priority = share.priority,
                                                     .on_warning = [this](const std::string& line) {
                                                       report.warnings.push_back(line);
                                                     }}));
      std::vector<Slice> slices;
      for (const ProgramSlice& slice : program_.slices)
        slices.push_back(client_->allocate(
            {.devices = slice.mesh.devices(), .ranks_per_device = options_.ranks_per_device}));
      executable_.emplace(slices[0].compile(
          program_, std::vector<Slice>(slices.begin() + 1, slices.end()),
          {.runs_in_flight_max = options_.runs_in_flight, .dispatch = options_.dispatch}));
      for (const ProgramNode& node : program_.nodes) {
        if (node.kind != NodeKind::kInput) continue;
        const HostTensor zeros(node.types[0]);
        if (zeros.type.rank() == 0) {
          arguments_.push_back({node.name, zeros});
        } else {
          arguments_.push_back({node.name, slices[node.slice].from_host(zeros)});
        }
      }
      if (options_.traced) graph = client_->graph(client_name);
      report.installed = true;
    } catch (const Error& error) {
      met(error);
    }
  }

  // Suspends until its last run has ended.
  void run() {
    first_ns = last_ns = now_ns();
    if (!report.installed) return;
    std::deque<Run> waiting;
    for (int i = 0; i < options_.runs && report.error.empty(); ++i) {
      try {
        waiting.push_back(executable_->run(arguments_));
      } catch (const Error& error) {  // The run was never submitted.
        met(error);
        break;
      }
      ++report.submitted;
      if (static_cast<int>(waiting.size()) >= options_.runs_in_flight) wait_for_first(waiting);
    }
    while (!waiting.empty()) wait_for_first(waiting);
    last_ns = now_ns();
  }

  // Suspends.
  void close() {
    executable_.reset();
    arguments_.clear();
    if (client_) client_->close();
    client_.reset();
  }

 private:
  int64_t now_ns() const { return reactor_.clock().now_ns(); }

  void met(const Error& error) {
    if (!report.error.empty()) return;
    report.error = error.what();
    report.error_at_ns = now_ns();
  }

  void wait_for_first(std::deque<Run>& waiting) {
    const Run run = std::move(waiting.front());
    waiting.pop_front();
    try {
      run.wait();
      ++report.done;
    } catch (const Error& error) {
      ++report.failed;
      met(error);
    }
  }

  Reactor& reactor_;
  SimCluster& cluster_;
  const StudyOptions& options_;
  const Program& program_;
  std::optional<Client> client_;
  std::optional<Executable> executable_;
  std::vector<Argument> arguments_;
};

using Runners = std::vector<std::unique_ptr<Runner>>;

// Calls body(runner, index) in a fiber for each runner. Suspends until all have ended.
template <class Body>
void for_all(Reactor& reactor, Runners& runners, const char* what, const Body& body) {
  std::vector<Fiber> fibers;
  for (size_t i = 0; i < runners.size(); ++i)
    fibers.push_back(reactor.spawn(what, [&body, &runners, i] { body(*runners[i], i); }));
  for (Fiber& fiber : fibers) fiber.join();
}

ProcessCounts operator-(ProcessCounts a, const ProcessCounts& b) {
  a.frames_in -= b.frames_in;
  a.frames_out -= b.frames_out;
  a.bytes_in -= b.bytes_in;
  a.bytes_out -= b.bytes_out;
  a.busy_ns -= b.busy_ns;
  a.processor_ns -= b.processor_ns;
  return a;
}

using BusyTimes = std::map<std::string, int64_t>;  // Sum over all devices; keys are programs.

BusyTimes busy_times(const SimCluster& cluster) {
  BusyTimes busy;
  for (int host = 0; host < cluster.options().hosts; ++host) {
    for (const auto& [program, ns] : cluster.host(host).busy_ns_by_program()) busy[program] += ns;
  }
  return busy;
}

void report_shares(BusyTimes busy, StudyReport& report) {
  int64_t all_ns = 0;
  for (const ProgramReport& program : report.programs) all_ns += busy[program.name];
  if (all_ns == 0) return;
  for (ProgramReport& program : report.programs)
    program.share = static_cast<double>(busy[program.name]) / static_cast<double>(all_ns);
}

void report_devices(const SimCluster& cluster, StudyReport& report) {
  BusyTimes busy = busy_times(cluster);
  int64_t all_ns = 0;
  for (ProgramReport& program : report.programs) {
    program.busy_ns = busy[program.name];
    all_ns += program.busy_ns;
  }
  const double devices = double{1} * cluster.options().hosts * cluster.options().devices_per_host;
  if (report.makespan_ns > 0)
    report.utilisation =
        static_cast<double>(all_ns) / (devices * static_cast<double>(report.makespan_ns));
}

void report_controller(StudyReport& report) {
  int runs = 0;
  for (const ProgramReport& program : report.programs) runs += program.submitted;
  if (runs == 0) return;
  const ProcessCounts& counts = report.controller;
  const auto per_run = [&](auto sum) { return static_cast<double>(sum) / runs; };
  report.controller_ns_per_run = per_run(counts.busy_ns);
  report.controller_measured_ns_per_run = per_run(counts.processor_ns);
  report.frames_per_run = per_run(counts.frames_in + counts.frames_out);
  report.bytes_per_run = per_run(counts.bytes_in + counts.bytes_out);
}

// Whether the program's error comes from the fault: it then names the fault's host. A client's
// fault ends no program.
bool has_met(const ProgramReport& program, const Fault& fault) {
  if (fault.client) return false;
  return fault.kind != FaultKind::kStopController &&
         program.error.find(SimCluster::host_name(fault.host) + "\"") != std::string::npos;
}

// Reports for each fault the first error that came after it, in a program that met it.
void report_faults(const FaultInjector& injector, std::vector<Fault> faults, StudyReport& report) {
  for (const auto& [fault, at_ns] : injector.happened()) {
    faults.erase(std::ranges::find(faults, fault));
    FaultReport& to = report.faults.emplace_back(FaultReport{.fault = fault, .at_ns = at_ns});
    for (const ProgramReport& program : report.programs) {
      if (program.error.empty() || program.error_at_ns < at_ns) continue;
      if (!has_met(program, fault)) continue;
      const int64_t after_ns = program.error_at_ns - at_ns;
      if (!to.named.empty() && to.named_after_ns <= after_ns) continue;
      to.named = program.error;
      to.named_after_ns = after_ns;
    }
  }
  report.unmet = std::move(faults);
}

std::vector<Fault> faults_of(const StudyOptions& options) {
  std::vector<Fault> faults = options.faults;
  if (!options.faults_seed) return faults;
  const std::vector<Fault> drawn = draw_faults(
      *options.faults_seed, {.hosts = options.cluster.hosts,
                             .clients = static_cast<int>(options.programs.size()),
                             .within_ns = options.faults_within_ns,
                             .host_timeout_ns = options.cluster.host_timeout_ms * 1'000'000});
  faults.insert(faults.end(), drawn.begin(), drawn.end());
  return faults;
}

int64_t left_bytes(const SimCluster& cluster) {
  int64_t bytes = 0;
  for (const auto& executor : cluster.executors) {
    if (executor == nullptr || executor->disconnected().ready()) continue;
    for (int d = 0; d < cluster.options().devices_per_host; ++d)
      bytes += executor->host().bytes_in_use(static_cast<uint32_t>(d));
  }
  return bytes;
}

StudyReport run_on(Reactor& reactor, const StudyOptions& options,
                   const std::vector<Program>& programs) {
  StudyReport report;
  SimCluster cluster(reactor, options.cluster);
  Runners runners;
  for (const Program& program : programs)
    runners.push_back(std::make_unique<Runner>(reactor, cluster, options, program));
  for_all(reactor, runners, "install", [&](Runner& runner, size_t i) {
    runner.install(SimCluster::client_name(static_cast<int>(i)),
                   i < options.shares.size() ? options.shares[i] : Share());
  });
  const ProcessCounts before = cluster.controller_counts();
  const std::vector<Fault> faults = faults_of(options);
  FaultInjector injector(reactor, cluster, faults);
  std::optional<BusyTimes> until_first_end;
  for_all(reactor, runners, "run", [&](Runner& runner, size_t) {
    runner.run();
    if (runner.report.installed && !until_first_end) until_first_end = busy_times(cluster);
  });
  int64_t first_ns = reactor.clock().now_ns();
  for (const auto& runner : runners) first_ns = std::min(first_ns, runner->first_ns);
  for (const auto& runner : runners)
    report.makespan_ns = std::max(report.makespan_ns, runner->last_ns - first_ns);
  report.controller = cluster.controller_counts() - before;
  for_all(reactor, runners, "close", [](Runner& runner, size_t) { runner.close(); });
  for (const auto& runner : runners) report.programs.push_back(runner->report);
  report.graph = runners.front()->graph;
  report_devices(cluster, report);
  report_shares(until_first_end.value_or(BusyTimes()), report);
  report_controller(report);
  report_faults(injector, faults, report);
  report.replay_hash = cluster.replay_hash();
  injector.finish();
  // A host may have become silent just now: what lies on it is freed when it is lost.
  const int64_t settle_ms = 1000 + 2 * options.cluster.host_timeout_ms;
  WaitQueue().wait_until_ns("for what clients held to be freed",
                            reactor.clock().now_ns() + settle_ms * 1'000'000);
  report.left = cluster.controller.controller().counts();
  report.left_bytes = left_bytes(cluster);
  return report;
}

bool resize(Mesh& mesh, const MeshAxis& to) {
  bool any = false;
  for (MeshAxis& axis : mesh.axes) {
    if (axis.name != to.name) continue;
    axis.size = to.size;
    any = true;
  }
  return any;
}

// Resizes a function with its bodies. Bodies that several nodes share stay shared.
using FunctionPtr = std::shared_ptr<const Function>;
using Resized = std::map<const Function*, FunctionPtr>;
FunctionPtr resized(const FunctionPtr& function, const MeshAxis& to, Resized& made) {
  if (const auto found = made.find(function.get()); found != made.end()) return found->second;
  auto copy = std::make_shared<Function>(*function);
  resize(copy->mesh, to);
  for (Node& node : copy->nodes) {
    if (node.body != nullptr) node.body = resized(node.body, to, made);
  }
  return made[function.get()] = std::move(copy);
}

}  // namespace

Program with_mesh(const Program& program, const std::vector<MeshAxis>& sizes) {
  Program changed = program;
  for (const MeshAxis& size : sizes) {
    bool any = false;
    for (ProgramSlice& slice : changed.slices) any |= resize(slice.mesh, size);
    GW_REQUIRE(any, "program \"", program.name, "\": no mesh of it has an axis \"", size.name,
               "\"");
    Resized made;
    for (auto& function : changed.functions) function = resized(function, size, made);
  }
  return changed;
}

StudyReport study(const StudyOptions& options) {
  GW_REQUIRE(!options.programs.empty() && options.runs >= 1 && options.runs_in_flight >= 1,
             "simulation: expected at least one program, run and run in flight");
  std::vector<Program> programs = options.programs;
  make_names_unique(programs);
  GW_REQUIRE(!options.traced || programs.size() == 1,
             "simulation: a timeline is of one program, got ", programs.size());
  const auto reactor =
      Reactor::make_simulated({.seed = options.seed, .time_limit_ns = options.time_limit_ns});
  return reactor->run([&] {
    const size_t fibers_before = reactor->live_fibers();
    Tracer tracer(reactor->clock(), "simulation");
    StudyOptions used = options;
    if (options.traced) used.cluster.tracer = &tracer;
    StudyReport report = run_on(*reactor, used, programs);
    if (options.traced) report.trace = to_chrome_json({tracer.drain()});
    report.left_fibers = reactor->live_fibers() - fibers_before;
    return report;
  });
}

}  // namespace gangway
