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
// Waiting: run() waits while `runs_in_flight_max` runs of the executable are in flight, or as many
// of the client as the controller allows (1024 by default): until half of them have ended, so that
// short runs travel together, or, after a millisecond, until one has. item(), to_host() and wait()
// wait for data, and read_state() and write_state() for the runs before them; nothing else does.
// Where a program has experts without a bound that always holds (MoeConfig::bound), a run may have
// too little room for what comes. Then the controller compiles the program again with more, and
// runs its runs again in their order. Until such a run has ended, runs of other executables on the
// slice and reads of its states wait for it, whether it needs more room or not.
// Threads: every class here is a handle, copyable, safe from any thread. The client owns a reactor
// thread.
// Ownership: an object is freed, remotely too, when the last copy of its handle is gone; all are
// when the client closes or dies. A client that loses its connection dials again and goes on where
// it was, as long as the controller's lease (60 s); after that all fails with kUnavailable.
// Errors: always gangway::Error. One of a call that takes a Loc has the caller's line where no line
// of a program is to blame. A run's error arrives at wait(), item() and to_host() of its results,
// or, where nobody calls these and it updates states, at the next call that depends on them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "client/call_errors.h"
#include "client/repeat.h"
#include "client/shared_states.h"
#include "client/status.h"
#include "client/tensor.h"
#include "ir/graph/program.h"
#include "ir/plan/dispatch.h"
#include "ir/types/box.h"
#include "ir/types/mesh.h"
#include "ir/types/sharding.h"
#include "protocol/install.h"
#include "protocol/program_log.h"
#include "protocol/recovery_options.h"
#include "protocol/reported.h"
#include "protocol/schedule.h"
#include "protocol/share.h"
#include "runtime/base/loc.h"

namespace gangway {

struct ProgramGraph;  // client/program_graph.h
namespace internal {
class Session;
class SliceImpl;
class ExecutableImpl;
class RunImpl;
class ArrayImpl;
}  // namespace internal

struct ConnectOptions {
  // Name by which `gangway ps` and errors call the client's program; empty: "process PID". Live
  // programs of one user have different names: a name that is taken is refused with kInvalid, or,
  // with number_name, gets a number ("train-2"), as an empty one does.
  std::string name;
  bool number_name = false;
  // Where others run on the same devices: the weight of its part of the device time, and, on a
  // controller with the policy "priority", who goes first (protocol/share.h has the bounds).
  double weight = 1;
  int32_t priority = 0;
  // local: only: controller and executors run on one reactor in this process, for tests.
  bool in_process = false;
  // local: only: memory of each device; 0: an equal share of the machine's memory, or the card's.
  int64_t memory_bytes = 0;
  std::string device = "cpu";   // local: only: devices that executors offer, "cpu" or "cuda".
  int islands = 1;              // local: only: executors are dealt out to so many, in runs.
  int64_t timeout_ms = 10'000;  // Limit for reaching the controller or starting a cluster.
  // File with the token that is shown to a controller at a TCP port; only its user may read it.
  // Empty: $GANGWAY_TOKEN_FILE, or where a controller of this user puts the token:
  // ~/.local/state/gangway/token. kInvalid when the token is not the controller's.
  std::string token_file;
  // Folder of an owner's certificate (runtime/tls/tls_files.h): TCP connections use TLS. Empty:
  // $GANGWAY_TLS, or without that no TLS, and no controller beyond this machine.
  std::string tls_folder = {};
  // If not empty, close() writes a Chrome/Perfetto timeline here: of all processes of a local
  // cluster, else of this one. A killed process is missing from it.
  std::string trace_path;
  // Gets news for the user, a line each: that a program lost the fast path, and why; that one was
  // compiled again, with more room, or that it does not begin a state that is there; that the
  // connection was lost; that the certificate ends soon. Called on the client's reactor thread,
  // where it must not call the client. Without it lines go to standard error; so do a line for
  // which it throws and what it threw. The client goes on.
  std::function<void(const std::string& line)> on_warning;
  // Called when somebody asks the client's program to end (`gangway stop`): `by` says who. After
  // `grace_ms` it is ended by force, and calls that wait fail with kCancelled. Until then it may
  // end by itself, by close() or detach(). Also called when the controller was told to end; calls
  // that wait fail with kUnavailable then. Threads and errors: see on_warning.
  std::function<void(const std::string& by, int64_t grace_ms)> on_stop = {};
};

// A handle to one logical sharded buffer.
class Array {
 public:
  Array() = default;
  explicit Array(std::shared_ptr<internal::ArrayImpl> impl);
  const Type& type() const;
  bool ready() const;  // Like Run::done().
  // Waits. Returns the whole tensor, gathered from its shards.
  HostTensor to_host(Loc loc = Loc::current()) const;
  // Waits. Returns the one element of a scalar (or of a tensor with one element).
  template <class T>
  T item(Loc loc = Loc::current()) const {
    const HostTensor tensor = to_host(loc);
    return internal::at_line(loc, [&]() -> T {
      GW_REQUIRE(tensor.type.elements() == 1, "item: needs one element, the array is ",
                 to_string(tensor.type));
      return tensor.as<T>()[0];
    });
  }
  const std::shared_ptr<internal::ArrayImpl>& impl() const { return impl_; }

 private:
  const internal::ArrayImpl& full() const;  // kInvalid when empty.

  std::shared_ptr<internal::ArrayImpl> impl_;
};

// One execution. The runs of an executable that updates states form a chain: each commits only if
// the run before it did, so the runs behind a failed one fail too, with its reason. The first run
// after the user was told begins a new chain. wait(), item() and to_host() tell the user; where
// none was called, the next run, repetition, read or write that depends on the states does, once.
class Run {
 public:
  explicit Run(std::shared_ptr<internal::RunImpl> impl);
  Array operator[](std::string_view output) const;  // kInvalid lists the outputs that exist.
  // Whether the run has ended; waits for nothing, and sends nothing again.
  bool done() const;
  void wait(Loc loc = Loc::current()) const;  // Throws the run's error.
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

// Progress of a compilation.
struct CompileProgress {
  std::string what;  // "step: partition", of a function's pass; "installing on 2 hosts" at the end.
  double part = 0;   // Part of the controller's work that is done: 0 to 1.
};

struct CompileOptions {
  // Each run in flight has memory of its own for its inputs, batches, transfers and outputs.
  // 0: 64 where these take at most 64 KiB, else 8.
  int64_t runs_in_flight_max = 0;
  // Sequential: hosts do their work for a node only once the nodes before it have ended, not ahead
  // of the data. Slow; kUnimplemented where devices report whole runs only: on cards, and where a
  // device is in two of the program's slices.
  Dispatch dispatch = Dispatch::kParallel;
  // Called at most a hundred times, while compile() waits, on the client's reactor thread, where it
  // must not call the client. compile() throws what this throws, and compiles nothing then.
  std::function<void(const CompileProgress&)> on_progress;
  // Name under which a client that attaches to the client's program finds the executable, the last
  // one of the name; empty: the compiled program's own.
  std::string name = {};
};

// Memory that a compiled program needs on each device.
struct MemoryReport {
  struct Device : DeviceNeed {
    std::string host;
  };
  std::vector<Device> devices;
};

class Executable {
 public:
  explicit Executable(std::shared_ptr<internal::ExecutableImpl> impl);
  Run run(const std::vector<Argument>& arguments = {}, const RunOptions& options = {},
          Loc loc = Loc::current()) const;
  // The controller enqueues this many runs with these inputs by itself, behind the runs that were
  // enqueued before, and goes on when the client has detached. Returns at once. Sources advance by
  // one each step. A step that fails ends the repetition. While it goes on run() of this executable
  // fails with kInvalid. `gangway ps` shows its step and its scalar outputs.
  Repeat repeat(int64_t steps, const std::vector<RepeatedInput>& inputs = {}) const;
  // The repetition that some client began last; none: the executable was never repeated.
  std::optional<Repeat> repetition() const;
  const Program& program() const;
  MemoryReport memory() const;  // At its compile: with more room since, it takes more.
  // explain(): why a node, a value or a line is compiled, sharded and placed as it is; `what` names
  // it in the way of ir/explain/why.h. plan_text(): what the devices do, in the plan that is
  // installed now. Both ask the controller.
  std::string explain(const std::string& what) const;
  std::string plan_text() const;
  // The position of the next run in every source of the program; each run advances it by one.
  uint64_t position() const;
  void set_position(uint64_t position) const;

 private:
  std::shared_ptr<internal::ExecutableImpl> impl_;
};

struct SliceOptions {
  int64_t devices = 1;  // Number of devices in the slice's mesh.
  // Number of these devices, neighbours in the mesh, that share one device of the cluster: they
  // take turns, and each has memory of its own there. A program can thus be tried with more devices
  // than the cluster has. It divides `devices`.
  int64_t ranks_per_device = 1;
  // Axes of the slice's mesh, as Slice::mesh() takes them, the outermost first: neighbours along
  // the innermost ones get devices of one host where possible. `devices` may be left out.
  std::vector<MeshAxis> mesh = {};
  // Constraints: devices of one island only; how many devices of one host at most (1: each on a
  // host of its own; 0: any number); bytes that are free on each device when the slice is
  // allocated; devices on which no other slice lies, as long as this one lives.
  bool one_island = false;
  int64_t per_host_max = 0;
  int64_t memory_bytes = 0;
  bool exclusive = false;
  // How long allocate() waits for what others hold and for hosts that are not there yet, in line
  // with other clients: smaller slices do not overtake a slice for ever. status() shows the wait;
  // closing the client ends it. 0: allocate() throws at once. At most a week.
  int64_t wait_ms = 0;
  // Called every second while allocate() waits, with what it waits for and who holds it: "8
  // devices, for 12.00 s: client 3 of ada holds 8 devices". On the client's reactor thread, where
  // it must not call the client. allocate() throws what this throws, and waits no longer.
  std::function<void(const std::string& what)> on_wait = {};
};

class Slice {
 public:
  explicit Slice(std::shared_ptr<internal::SliceImpl> impl);
  int64_t devices() const;
  // Named axes over the slice's devices; sizes must multiply to devices().
  Mesh mesh(std::vector<MeshAxis> axes, Loc loc = Loc::current()) const;

  // Verifies, lowers and installs the program once. Slice i of it runs on `slices[i]`; this slice
  // is slice 0. Programs compiled on one slice share the states of equal name: a state that is
  // there keeps what it holds, and on_warning is told where this program would have begun it
  // otherwise. An error that is about no line of the program names the caller's.
  // Options may stand behind the program alone, as {.runs_in_flight_max = 1}, and so may further
  // slices, as {second, third}.
  Executable compile(const Program& program, const CompileOptions& options = {},
                     Loc loc = Loc::current()) const;
  Executable compile(const Program& program, std::span<const Slice> more_slices,
                     const CompileOptions& options = {}, Loc loc = Loc::current()) const;
  Executable compile(const Program& program, std::initializer_list<Slice> more_slices,
                     const CompileOptions& options = {}, Loc loc = Loc::current()) const;

  // An array for an input of a program compiled on this slice: the first run that takes it lays it
  // out as that input is sharded.
  Array from_host(const HostTensor& tensor) const;

  // These read and write states, of all slices of the programs that were compiled on this one,
  // however they are sharded. They are ordered like runs: after every run that was enqueued before,
  // and before every later one. With parts a caller need not hold all of a tensor; pieces_of()
  // (ir/types/box.h) cuts one into parts. read_state() takes an empty part as all of the state.
  // A run that is enqueued between two parts shows in the second part alone. A state that a failed
  // write has spoilt is whole again once all its parts were written.
  HostTensor read_state(const std::string& name, const Box& part = {},
                        Loc loc = Loc::current()) const;
  void write_state(const std::string& name, const HostTensor& tensor,
                   Loc loc = Loc::current()) const;
  void write_state(const std::string& name, const Box& part, const HostTensor& tensor,
                   Loc loc = Loc::current()) const;
  std::vector<std::pair<std::string, Type>> states() const;
  // All tensors of these states; the tensors of one state stand together.
  std::vector<StateTensor> state_tensors() const;

  // Lets programs of that owner read the states of programs compiled on this slice, as long as it
  // lives (client/shared_states.h); "*": programs of everyone. Programs of the client's own owner
  // may anyway. A client lets others read one slice: kInvalid for a second one.
  void allow_read(const std::string& owner) const;
  // From now on the cluster keeps checkpoints of the states of programs compiled on this slice, one
  // at each multiple of `every` versions (runs that have committed on the slice), in the folder of
  // its controller (`gangway controller --checkpoint-dir`). A program with checkpoints goes on by
  // itself when a host of it is lost; one that is named and repeated also behind a restart of the
  // controller (--state-dir). Then no state and no result of a run since the newest checkpoint is
  // lost, and none is reported twice. Results of older runs, and arrays that the client has put,
  // are lost; where a run since then took one, or the client has written a state since, the program
  // fails with kUnavailable, and on_warning is told why. A state that no executable has any more is
  // lost with the host. keep_checkpoints() throws kInvalid where there is no folder, before a
  // program with states is compiled, and for a second slice of a client; kOverloaded where a host
  // has no memory for writing a checkpoint.
  void keep_checkpoints(const RecoveryOptions& options) const;
  // Writes every state of programs compiled on this slice from the snapshot; kInvalid where that
  // has no state of the name, or one of another type. Ordered like write_state(). Waits.
  void load(const Snapshot& snapshot) const;

 private:
  std::shared_ptr<internal::SliceImpl> impl_;
};

class Client {
 public:
  explicit Client(std::shared_ptr<internal::Session> session);
  // Throws, with the caller's line, kInvalid where the cluster does not have what is asked for,
  // saying what it has, and kOverloaded where others hold it, saying who. Waits as `wait_ms` says.
  Slice allocate(const SliceOptions& options, Loc loc = Loc::current()) const;
  // Name of the client's program: see ConnectOptions::name.
  const std::string& name() const;
  ClusterStatus status() const;
  // Sets the program's share from now on: see ConnectOptions. kInvalid beyond the bounds.
  void set_share(double weight, int32_t priority) const;
  // Numbers that `gangway ps` and `gangway top` show of this program, in place of those that it
  // reported before: {{"step", 12}, {"loss", 3.1}}. Returns at once; the newest report is sent, at
  // most five times a second. kInvalid beyond the bounds of protocol/reported.h.
  void report(Reported numbers) const;
  // Lines, one or several, for `gangway logs`, which shows them with the time, among the lines that
  // the controller logs of this program. Returns at once. At most 256 are sent in a fifth of a
  // second, the newest ones; the log says how many were dropped. Bounds: protocol/program_log.h.
  void log(const std::string& text) const;
  // Log of a program that is named as in stop_program(), or of one that has ended, as long as its
  // log is kept. kInvalid for a name that no program has or had, and for another user's.
  ProgramLog logs(const std::string& name, const LogRequest& request = {}) const;
  // Graph and plan of a program that is named as in stop_program(): of its executable of this name;
  // empty: of its only one. kInvalid where there is no such executable, and for another user's.
  ProgramGraph graph(const std::string& name, const std::string& executable = {}) const;
  // For the user who runs the controller; kInvalid for others, and for a name no host has or had.
  // A host that drains gets no new slices, also when it goes and comes back, until it is undrained;
  // programs that are there go on. A host that is gone may be forgotten, and with it its name,
  // which is kept for it otherwise: kInvalid for a host that is there.
  void drain(const std::string& host) const;
  void undrain(const std::string& host) const;
  void forget(const std::string& host) const;
  // States of another client's program, "owner/name", or "name" of the same owner. kInvalid where
  // there is none that this client may read; kOverloaded while the program is brought back behind a
  // restart of its controller, which may wait for devices: try again later.
  SharedStates open_states(const std::string& program) const;
  // The program goes on without this client, under its owner and name, until it is attached to
  // again or ended: runs that were enqueued, repetitions, and what handles of slices and
  // executables hold now. Arrays are freed, and all handles of this client end. kInvalid without a
  // name that somebody chose, and for a local cluster, which ends with its client. From then on a
  // client that dies leaves the program detached again.
  void detach() const;
  // Slices and executables of a program that was attached to. Their handles free nothing.
  std::vector<Slice> slices() const;             // In the order in which they were allocated.
  std::vector<std::string> executables() const;  // Their names (CompileOptions::name).
  Executable executable(const std::string& name) const;  // kInvalid lists those that there are.
  // Address of the controller: of a local cluster of processes, too.
  const std::string& address() const;
  // Whether somebody has asked the client's program to end: see ConnectOptions::on_stop.
  bool stop_requested() const;
  // Ends a program of this user, by its name. The user who runs the controller may end any, as
  // "owner/name". A detached program ends between two steps, one that has a client when that has
  // closed or detached; either by force after the grace (at most a week), and then true is
  // returned. Waits for the end. kInvalid for a name that no program has, and for another user's.
  bool stop_program(const std::string& name, int64_t grace_ms = 30'000) const;
  // Makes a program, named as in stop_program(), leave its devices to others. Runs that it enqueues
  // from now on wait; once those under way have ended, its states go to the memory of their hosts.
  // Returns how many bytes that takes.
  int64_t suspend_program(const std::string& name) const;
  // Brings the program back. kOverloaded, saying who holds what, while there is no room for it.
  void resume_program(const std::string& name) const;
  // Cancels the runs in flight, frees what the client holds, all of a program that was attached to,
  // and ends a local cluster. The destructor of the last handle does the same, but it detaches from
  // a program that was attached to; so does close() where it can't reach the controller.
  void close() const;

 private:
  std::shared_ptr<internal::Session> session_;
};

// "local:2x3": two executors of three devices. kInvalid names an address that has another form.
struct LocalShape {
  int executors = 1;
  int devices = 1;  // Devices of each executor.
};
LocalShape parse_local(const std::string& address);

// "local:EXECUTORSxDEVICES" starts a cluster for this client; "host:port" joins a running one.
Client connect(const std::string& address, const ConnectOptions& options = {});

// Attaches to a program of this user that was detached: from now on this client holds what that
// program holds. kInvalid when none has the name, or when it has a client, saying which.
Client attach(const std::string& address, const std::string& name,
              const ConnectOptions& options = {});

}  // namespace gangway
