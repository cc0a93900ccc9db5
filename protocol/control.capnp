# Control: what client, controller and executors ask of one another to set things up.
#
# Everything here is rare (once a process, a slice or a program), so that it may cost a round trip.
# What happens with every run goes through frames (frames.capnp).
#
# Errors are exceptions that carry a whole gangway::Error (runtime/fibers/kj_error.h). When a
# capability is dropped, the receiver frees what it stood for: when a client ends, in whatever way,
# the controller closes its session.

@0xd3a0c7f2b1e64f58;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("gangway::wire");

struct Version {
  protocol @0 :UInt32;
  # Must be equal on both sides.
  release @1 :Text;
  # For people: "0.1.0".
}

struct Machine {
  # Tells which processes can share memory: executors and clients of one controller must have the
  # same machine, until there are transfers between machines.
  identity @0 :Text;
  # Boot id and pid namespace.
  host @1 :Text;
  # The machine's name, for messages.
}

interface Controller {
  # The bootstrap capability of the controller's address.

  registerExecutor @0 (version :Version, machine :Machine, description :HostDescription,
                       executor :Executor)
      -> (registration :Registration, frameKey :UInt64, name :Text);
  # An executor offers its devices. The controller calls it `name` from now on (it appends a number
  # to a name that is taken). It refuses another version (kInvalid, naming both) and another machine
  # (kUnimplemented). The executor opens its frame stream with `frameKey` as the token, and again
  # with the same token when the stream's connection was lost. Frames wait for it until then.

  connect @1 (version :Version, machine :Machine, name :Text, share :Share)
          -> (session :Session, frameKey :UInt64, id :UInt64, runCredits :UInt32,
              copyCredits :UInt32 = 1024);
  # A client joins. It names its arrays and runs (id << 40) + 1, 2, 3 ... It may have submitted
  # `runCredits` runs and `copyCredits` puts and gets that have not ended: the controller ends its
  # connection if it submits more.

  status @2 (version :Version)
         -> (hosts :List(HostStatus), metrics :Text, programs :List(ProgramStatus));
  # The registered executors, for `gangway devices --connect`, and the connected clients, for
  # `gangway ps`. `metrics`: the controller's, in the text format of Prometheus. Only who runs the
  # controller is told all. Others see of programs that are not theirs the owner and what they use,
  # not the name, and no metrics.
}

struct Share {
  # What a client's program gets where others run on the same devices (protocol/share.h).
  weight @0 :Float64 = 1;
  priority @1 :Int32;
}

struct ProgramStatus {
  id @0 :UInt64;
  # The session's.
  name @1 :Text;
  share @2 :Share;
  used @3 :Float64;
  # Part of the time of the devices that it may run on, over the last second.
  runsWaiting @4 :UInt64;
  runsInFlight @5 :UInt64;
  runsDone @6 :UInt64;
  owner @7 :Text;
  # Who uses it (protocol/owner.h).
  waitsFor @8 :Text;
  # "8 devices, for 12.00 s": slices that it waits for.
  reported @9 :List(ReportedNumber);
  # What it said last of itself.
  memoryBytes @10 :Int64;
  # Reserved for it, on all devices together.
  hosts @11 :List(Text);
  # On which its slices lie.
  devices @12 :UInt32;
  # Of the cluster, in its slices; one that lies in several counts once.
}

struct ReportedNumber {
  # What a program says of itself (protocol/reported.h has the bounds).
  name @0 :Text;
  value @1 :Float64;
}

struct HostDescription {
  name @0 :Text;
  devices @1 :UInt32;
  memoryBytes @2 :Int64;
  # Of each device.
  kind @3 :Text;
  # "cpu", "sim", "cuda".
  text @4 :Text;
  # One line a device.
  process @5 :Int64;
  island @6 :Text;
  # Hosts of one island reach one another faster than others. 1 to 64 letters, digits, '-', '_' or
  # '.'.
}

struct HostStatus {
  host @0 :HostDescription;
  memoryUsed @1 :Int64;
  # Reserved on its fullest device.
  runsDone @2 :UInt64;
  suspectMs @3 :Int64;
  # For how long it has said nothing, once that is suspicious; 0: it is not.
  stuck @4 :List(Text);
  # Its devices whose work does not go on, and in what.
}

interface Registration {}
# Held by the executor. When the executor drops it, the controller removes the executor.

struct DeviceNeed {
  device @0 :UInt32;
  arena @1 :Int64;
  state @2 :Int64;
  slots @3 :Int64;
}

struct LinkOffer {
  # Opaque to the controller: how the peers of a host reach the memory in which it receives.
  host @0 :UInt32;  # Of the plan.
  bytes @1 :Data;
}

interface Executor {
  # Implemented by executors, called by the controller. A plan becomes usable in three steps. Each
  # is done on all hosts of the plan before the next begins, so a plan that does not fit on one host
  # allocates nothing on the others.

  install @0 (plan :UInt64, bytes :Data, self :UInt32, scope :UInt64)
          -> (needs :List(DeviceNeed), offers :List(LinkOffer));
  # The executor verifies and compiles the plan and plans its memory. `bytes` is plan.capnp,
  # verified on reading. `self`: this host's index in the plan.

  link @1 (plan :UInt64, offers :List(LinkOffer));
  # The offers of all hosts of the plan; a host opens those of the hosts that it writes to.

  commitInstall @2 (plan :UInt64);
  # Allocates memory and computes the first values of new states.
}

interface Session {
  # A client's view of the controller. Dropping it frees everything that the client holds.

  allocate @0 (devices :UInt32, islands :UInt32, ranksPerDevice :UInt32 = 1, axes :List(UInt32),
               oneIsland :Bool, perHostMax :UInt32, memoryBytes :Int64, exclusive :Bool,
               waitMs :Int64)
      -> (slice :Slice, id :UInt64, hosts :List(Text));
  # Virtual devices, `ranksPerDevice` of them on each physical one, which must divide them; `hosts`
  # says, for each, the executor it lies on now. The rest is as in protocol/slice_shape.h. A call
  # that waits ends when its client cancels it.

  compile @1 (program :Data, slices :List(UInt64), runsInFlightMax :UInt32, dispatch :UInt8,
              watch :CompileWatch) -> Compiled;
  # `program` is ir/wire/graph.capnp. `slices`: one id for each slice of the program. `dispatch`:
  # as in ir/plan/plan.capnp. `watch`, which may be missing, is told of how far it is. Returns when
  # the plan is installed on all its hosts.

  setShare @2 (share :Share);
  # From now on.

  report @3 (numbers :List(ReportedNumber));
  # In place of what the client's program said of itself before. A client sends one at most five
  # times a second.

  struct Compiled {
    executable @0 :Executable;
    plan @1 :UInt64;
    scope @2 :UInt64;
    inputs @3 :List(Port);
    outputs @4 :List(Port);
    states @5 :List(Port);
    sources @6 :UInt32;
    text @7 :Text;
    # The plan as people read it.
    needs @8 :List(HostNeeds);
  }
  struct Port {
    name @0 :Text;
    dtype @1 :UInt8;
    dims @2 :List(Int64);
  }
  struct HostNeeds {
    host @0 :Text;
    needs @1 :List(DeviceNeed);
  }
}

interface CompileWatch {
  # Implemented by a client that waits for a compile.

  told @0 (what :Text, part :Float64);
  # At most a hundred times. `what`: "step: partition"; `part` of the controller's work is done.
}

interface Slice {}
# When the client drops it, its devices are given back once no executable uses them.

interface Executable {}
# When the client drops it, the plan is uninstalled after its last run.
