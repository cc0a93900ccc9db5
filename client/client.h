// The client: connect to a cluster (or start one), compile programs, run them, read results.
//
// Example:
//   Client client = connect("local:2x2");  // Starts two executors with two CPU devices each.
//   Slice slice = client.allocate({.devices = 4});
//   Mesh mesh = slice.mesh({{"data", 4}});
//   Executable step = slice.compile(programs::train_step(config, mesh));
//   for (int i = 1; i <= 1000; ++i) {
//     Run run = step.run({{"lr", 1e-3f}, {"step", float(i)}});  // Returns at once.
//     if (i % 100 == 0) std::printf("%.3f\n", run["loss"].item<float>());  // Waits for the loss.
//   }
//
// Waiting: run() waits only when `runs_in_flight_max` runs of the executable are in flight, or as
// many of the client as the controller allows (1024 by default): then until half of them have
// ended, so that short runs travel together, or after a millisecond until one has; item(),
// to_host() and wait() wait for data, and read_state() and write_state() for the runs before them;
// nothing else does. Where one program on a slice may have too little room for what comes at run
// time, run() of another that names its states or is given its results waits for the runs of that
// one. A program that had too little room for what came at run time
// (MoeConfig::bound) is compiled again, and its runs are sent again: by whoever waits for one of
// them, reads or writes a state of its slice, or enqueues its next run; the destructor of its last
// handle waits for that too.
// Threads: every class here is a handle, copyable, safe from any thread. The client owns a reactor
// thread.
// Ownership: what a handle names is freed, remotely too, when its last copy is gone. A client that
// dies has everything that it held freed by the controller.
// Errors: always gangway::Error. A run's error arrives at wait(), item() and to_host() of its
// results.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "client/tensor.h"
#include "ir/graph/program.h"
#include "ir/plan/dispatch.h"
#include "ir/types/box.h"
#include "ir/types/mesh.h"
#include "ir/types/sharding.h"
#include "protocol/install.h"
#include "protocol/reported.h"
#include "protocol/share.h"
#include "runtime/base/loc.h"

namespace gangway {

namespace internal {
class ClientImpl;
class SliceImpl;
class ExecutableImpl;
class RunImpl;
class ArrayImpl;
}  // namespace internal

struct ConnectOptions {
  // What `gangway ps` and errors call the client's program; empty: "process PID".
  std::string name;
  // Where others run on the same devices: its part of the device time against their weights, and,
  // on a controller with the policy "priority", who goes first (protocol/share.h has the bounds).
  double weight = 1;
  int32_t priority = 0;
  // local: only: controller and executors on one reactor in this process, for tests.
  bool in_process = false;
  // local: only: of each device; 0: an equal share of the machine's memory, or the card's.
  int64_t memory_bytes = 0;
  std::string device = "cpu";   // local: only: what executors offer, "cpu" or "cuda".
  int64_t timeout_ms = 10'000;  // To reach the controller, or to start the local cluster.
  // Where a token lies that is shown to a controller at a TCP port, in a file that only its user
  // can read. Empty: $GANGWAY_TOKEN_FILE, or where a controller of this user puts it:
  // ~/.local/state/gangway/token. kInvalid when it is not the controller's.
  std::string token_file;
  // Not empty: write a Chrome/Perfetto timeline here on close(): of all processes of a local
  // cluster, else of this one. A killed process is missing from it.
  std::string trace_path;
  // Gets what the user should know, a line each: that a program lost the fast path, and why; that
  // one was compiled again, with more room for rows of dropless experts. On the client's reactor
  // thread, where it must not call the client. None: lines go to standard error; so does a line for
  // which it throws, and what it threw. The client goes on.
  std::function<void(const std::string& line)> on_warning;
};

// A handle to one logical sharded buffer.
class Array {
 public:
  Array() = default;
  explicit Array(std::shared_ptr<internal::ArrayImpl> impl);
  const Type& type() const;
  bool ready() const;  // As Run::done().
  // Waits. The whole tensor, gathered from its shards.
  HostTensor to_host() const;
  // Waits. The one element of a scalar (or of a tensor with one element).
  template <class T>
  T item() const {
    HostTensor tensor = to_host();
    GW_REQUIRE(tensor.type.elements() == 1, "item: needs one element, the array is ",
               to_string(tensor.type));
    return tensor.as<T>()[0];
  }
  const std::shared_ptr<internal::ArrayImpl>& impl() const { return impl_; }

 private:
  const internal::ArrayImpl& full() const;  // kInvalid when empty.

  std::shared_ptr<internal::ArrayImpl> impl_;
};

// One execution. The runs of an executable that updates state form a chain: each commits only if
// the run before it did, so what was enqueued behind a run that fails fails too, with its reason.
// The first run after the user was told (by wait(), item() or to_host()) begins a new chain.
class Run {
 public:
  explicit Run(std::shared_ptr<internal::RunImpl> impl);
  Array operator[](std::string_view output) const;  // kInvalid lists the outputs that exist.
  // Whether it has ended; waits for nothing, and sends nothing again.
  bool done() const;
  void wait() const;  // Throws the run's error.
  // Cancels a run that has not committed yet: its results become kCancelled errors, and state is as
  // before the run. A run that has committed is not changed.
  void cancel() const;

 private:
  std::shared_ptr<internal::RunImpl> impl_;
};

// A named argument: an array, or a tensor of this process. Tensors of up to 16 KiB together travel
// with the run; larger ones are copied to the devices first.
struct Argument {
  std::string name;
  std::variant<Array, HostTensor> value;
};

struct RunOptions {
  int64_t time_limit_ms = 0;  // 0: none. Past it the run is cancelled (kCancelled).
};

// How far compiling a program is.
struct CompileProgress {
  std::string what;  // "step: partition", of a function's pass; "installing on 2 hosts" at the end.
  double part = 0;   // Of the controller's work: 0 to 1.
};

struct CompileOptions {
  // Each run in flight has memory of its own for its inputs, batches, transfers and outputs.
  // 0: 64 where these take at most 64 KiB, else 8.
  int64_t runs_in_flight_max = 0;
  // Sequential: hosts do their work for a node only once those before it have ended, not ahead of
  // the data. Slow; kUnimplemented where devices report whole runs only: on cards, and where a
  // device is in two of the program's slices.
  Dispatch dispatch = Dispatch::kParallel;
  // Told at most a hundred times, while compile() waits: on the client's reactor thread, where it
  // must not call the client. What it throws is thrown by compile(), and nothing is compiled then.
  std::function<void(const CompileProgress&)> on_progress;
};

// What a compiled program needs of each device.
struct MemoryReport {
  struct Device : DeviceNeed {
    std::string host;
  };
  std::vector<Device> devices;
};

class Executable {
 public:
  explicit Executable(std::shared_ptr<internal::ExecutableImpl> impl);
  Run run(const std::vector<Argument>& arguments = {}, const RunOptions& options = {}) const;
  const Program& program() const;
  MemoryReport memory() const;
  // The position of the next run in every source of the program; each run advances it by one.
  uint64_t position() const;
  void set_position(uint64_t position) const;

 private:
  std::shared_ptr<internal::ExecutableImpl> impl_;
};

struct SliceOptions {
  int64_t devices = 1;  // As many as the slice's mesh has.
  // So many of them, neighbours in the mesh, share one device of the cluster: they take turns, and
  // each has memory of its own there. So a program can be tried with more devices than the cluster
  // has. It divides `devices`.
  int64_t ranks_per_device = 1;
  // The axes that the slice is for, as Slice::mesh() takes them, the outermost first: neighbours
  // along the innermost ones get devices of one host where possible. `devices` may be left out.
  std::vector<MeshAxis> mesh = {};
  // Constraints. Devices of one island only; so many of one host at most (1: each on a host of its
  // own; 0: any); so many bytes free on each device when the slice is allocated; devices that no
  // other slice lies on, as long as this one lives.
  bool one_island = false;
  int64_t per_host_max = 0;
  int64_t memory_bytes = 0;
  bool exclusive = false;
  // What others hold, and hosts that are not there yet, are waited for as long, in line with other
  // clients: a slice is not overtaken for ever by smaller ones. status() shows the wait; closing
  // the client ends it. 0: allocate() throws at once. At most a week.
  int64_t wait_ms = 0;
};

// A tensor of a slice's states as files and other tools know it: a state, or one of the layers that
// a state stacks (ir/graph/program.h).
struct StateTensor {
  std::string name;  // "params.layers.3.attn.q"
  Type type;
  std::string state;           // "params.layers.attn.q"
  std::optional<int64_t> row;  // Of dimension 0 of the state; none: the tensor is all of it.

  // A part of the tensor as a part of the state, of as many elements.
  Box in_state(Box part) const;
};

class Slice {
 public:
  explicit Slice(std::shared_ptr<internal::SliceImpl> impl);
  int64_t devices() const;
  // Named axes over the slice's devices; sizes must multiply to devices().
  Mesh mesh(std::vector<MeshAxis> axes, Loc loc = Loc::current()) const;

  // Verifies, lowers, installs once. Slice i of the program runs on `slices[i]`; this slice is
  // slice 0. Programs compiled on one slice share the states of equal name.
  // An error that is about no line of the program names the caller's.
  Executable compile(const Program& program, const CompileOptions& options = {},
                     Loc loc = Loc::current()) const;
  Executable compile(const Program& program, const std::vector<Slice>& more_slices,
                     const CompileOptions& options = {}, Loc loc = Loc::current()) const;

  // An array for an input of a program compiled on this slice: the first run that takes it lays it
  // out as that input is sharded.
  Array from_host(const HostTensor& tensor) const;

  // Reading and writing states, of all slices of the programs that were compiled on this one,
  // however they are sharded. Both are ordered like runs: after every run that was enqueued before,
  // and before every later one.
  std::vector<std::pair<std::string, Type>> states() const;
  // All that these states hold; those of one state stand together.
  std::vector<StateTensor> state_tensors() const;
  HostTensor read_state(const std::string& name) const;
  void write_state(const std::string& name, const HostTensor& tensor) const;
  // The same of a part, so that no process need hold all of a tensor; pieces_of() (ir/types/box.h)
  // cuts one into parts. What a run enqueued between two parts does is in the second alone. A state
  // that a failed write has spoilt is whole again once all its parts were written, in their order.
  HostTensor read_state(const std::string& name, const Box& part) const;
  void write_state(const std::string& name, const Box& part, const HostTensor& tensor) const;

 private:
  std::shared_ptr<internal::SliceImpl> impl_;
};

struct HostStatus {
  std::string name, kind, text;  // `text`: one line a device.
  std::string island;
  uint32_t devices = 0;
  int64_t memory_bytes = 0, memory_used = 0;  // Of each device; of the fullest.
  uint64_t runs_done = 0;
  int64_t suspect_ms = 0;  // For how long it has said nothing, once that is suspicious; else 0.
  std::vector<std::string> stuck;  // Its devices whose work does not go on, and in what.
};

// What a connected client runs.
struct ProgramStatus {
  uint64_t id = 0;
  std::string name;
  std::string owner;  // Who uses it: letters, digits, '-', '_' and '.', at most 64.
  Share share;
  double used = 0;  // Part of the time of the devices that it may run on, over the last second.
  uint64_t runs_waiting = 0, runs_in_flight = 0, runs_done = 0;
  Reported reported;               // What it said last of itself: see Client::report().
  int64_t memory_bytes = 0;        // Reserved for it, on all devices together.
  std::vector<std::string> hosts;  // On which its slices lie.
  uint32_t devices = 0;            // Of the cluster, in its slices.
  std::string waits_for;           // Slices: "8 devices, for 12.00 s"; empty: none.
  bool is_self = false;            // Of the client that asks.
};

struct ClusterStatus {
  std::vector<HostStatus> hosts;
  std::vector<ProgramStatus> programs;
  std::string metrics;  // The controller's, in the text format of Prometheus.
};

class Client {
 public:
  explicit Client(std::shared_ptr<internal::ClientImpl> impl);
  // Throws, with the caller's line, kInvalid for what the cluster does not have, saying what it
  // has; kOverloaded for what others hold, saying who. Waits as `wait_ms` says.
  Slice allocate(const SliceOptions& options, Loc loc = Loc::current()) const;
  ClusterStatus status() const;
  // From now on: see ConnectOptions. kInvalid beyond their bounds.
  void set_share(double weight, int32_t priority) const;
  // Numbers that `gangway ps` and `gangway top` show of this program, in place of those that it
  // reported before: {{"step", 12}, {"loss", 3.1}}. Returns at once; the newest is sent, at most
  // five times a second. kInvalid beyond the bounds of protocol/reported.h.
  void report(Reported numbers) const;
  // Cancels the runs in flight, frees what the client holds and ends a local cluster. The
  // destructor of the last handle does the same.
  void close() const;

 private:
  std::shared_ptr<internal::ClientImpl> impl_;
};

// "local:2x3": two executors of three devices. kInvalid names an address that says nothing like it.
struct LocalShape {
  int executors = 1;
  int devices = 1;  // Of each.
};
LocalShape parse_local(const std::string& address);

// "local:EXECUTORSxDEVICES" starts a cluster for this client; "host:port" joins a running one.
Client connect(const std::string& address, const ConnectOptions& options = {});

}  // namespace gangway
