// study(): runs programs on a simulated cluster and reports the results, for `gangway sim`.
//
// Each program is run by a client of its own, on slices of its own, `runs` times, as fast as its
// runs in flight allow. A client enqueues no more after the first run that fails, and waits for
// those that it has enqueued. Inputs are zeros. Everything but kMeasured times repeats exactly from
// the seed. Time counts from the first run: installing, which is RPC, is no part of it.
//
// Threads: the calling thread, which has no reactor.
// Errors: kInvalid for options that can't be simulated; failures in the cluster are in the report.
//
// Example:
//   StudyOptions options{.cluster = {.hosts = 64, .devices_per_host = 4, .timed_only = true}};
//   options.programs.push_back(with_mesh(Program::load("step.program"), {{"data", 256}}));
//   StudyReport report = study(options);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/program_graph.h"
#include "ir/graph/program.h"
#include "sim/faults.h"
#include "sim/sim_cluster.h"

namespace gangway {

// The program over meshes whose axes of these names have these sizes. Throws kInvalid where no mesh
// of it has such an axis.
Program with_mesh(const Program& program, const std::vector<MeshAxis>& sizes);

struct StudyOptions {
  SimClusterOptions cluster;
  std::vector<Program> programs;  // Client i (SimCluster::client_name()) runs the one at i.
  std::vector<Share> shares;      // Indexed by program; programs without one have the defaults.
  int ranks_per_device = 1;       // For the slices of each program.
  int runs = 10;                  // Runs of each program.
  int runs_in_flight = 4;         // Limit for each program.
  Dispatch dispatch = Dispatch::kParallel;
  uint64_t seed = 1;
  // Faults happen at times that count from the first run: these, and those that faults_seed draws.
  std::vector<Fault> faults;
  std::optional<uint64_t> faults_seed;
  // Drawn faults begin within this time.
  int64_t faults_within_ns = 100'000'000;
  int64_t time_limit_ns = int64_t{24} * 3600 * 1'000'000'000;  // Virtual.
  bool traced = false;  // Fills StudyReport::trace and graph; of one program.
};

struct ProgramReport {
  std::string name;  // The program's name; "name#2" for the second of one name.
  int64_t devices = 0;
  bool installed = false;
  int submitted = 0, done = 0, failed = 0;  // Runs.
  int64_t busy_ns = 0;                      // Time of this program's steps, on all devices.
  // Share of all programs' device time until the first of them ended. Afterwards programs compete
  // with fewer others.
  double share = 0;
  std::vector<std::string> warnings;  // Warnings that its user got.
  std::string error;                  // The first that it met; empty: none.
  int64_t error_at_ns = 0;
};

struct FaultReport {
  Fault fault;
  int64_t at_ns = 0;
  std::string named;  // Error of the first program that met it; empty: none met it.
  int64_t named_after_ns = 0;
};

struct StudyReport {
  int64_t makespan_ns = 0;  // From the first run's submission to the end of the last.
  double utilisation = 0;   // Utilisation of all devices, over the makespan.
  std::vector<ProgramReport> programs;
  ProcessCounts controller;  // Over the makespan.
  double controller_ns_per_run = 0, frames_per_run = 0, bytes_per_run = 0;
  // Measured part of controller_ns_per_run; kMeasured only.
  double controller_measured_ns_per_run = 0;
  std::vector<FaultReport> faults;
  std::vector<Fault> unmet;  // Their time came too late, or their host was gone.
  // Once all clients are closed: what the controller still counts, the bytes that devices of hosts
  // that serve still hold, and, when the cluster is gone too, the fibers that go on.
  ControllerCounts left;
  int64_t left_bytes = 0;
  size_t left_fibers = 0;
  uint64_t replay_hash = 0;
  // If options.traced: the newest events of devices in Chrome's format (runtime/observe/trace.h),
  // and the program's graph as it lay on the devices.
  std::string trace;
  ProgramGraph graph;
};

StudyReport study(const StudyOptions& options);

}  // namespace gangway
