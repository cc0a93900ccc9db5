# Control: the calls with which client, controller and executors set things up.
#
# Everything here is rare (once a process, a slice or a program), so that it may cost a round trip.
# The messages of every run are frames (frames.capnp).
#
# Errors are exceptions that carry a whole gangway::Error (runtime/fibers/kj_error.h).
#
# Sessions. All that a client holds belongs to its session, not to a connection. The session ends
# when the client closes it, when its process has ended, or when its lease is over, which is the
# time that it may be without a connection. Until then a client whose connection was lost attaches
# again, over a new one, and its frame stream brings both sides what they missed (frames.capnp). The
# client repeats a call that was under way under the call's number, and the controller does it once.
# A frame that names the number of a call (frames.capnp: release) releases what the call created, so
# that the release comes behind the runs that use it. A call may say how many such frames the
# controller must have taken before it does the call.
#
# A client may detach: then its session goes on without a client and without a lease, as the program
# of its owner and name. A later client attaches to it by name, and holds all that it has. If that
# client dies instead of closing, the session is detached once more.

@0xd3a0c7f2b1e64f58;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("gangway::wire");
using Frames = import "frames.capnp";

struct Version {
  protocol @0 :UInt32;
  # Must be equal on both sides.
  release @1 :Text;
  # For people: "0.1.0".
}

struct Machine {
  # Tells which processes can share memory. Executors and clients of one controller must have the
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
  # to a name that is taken). It refuses another version (kInvalid, naming both), another machine
  # (kUnimplemented) and, under TLS, any certificate but that of a host with the executor's name.
  # The executor opens its frame stream with `frameKey` as the token, and again with the same token
  # when the stream's connection was lost. Frames wait for the stream until then.

  connect @1 (version :Version, machine :Machine, name :Text, share :Share, process :Int64,
              nonce :UInt64, numberName :Bool, attach :Bool, watch :ClientWatch)
          -> (session :Session, frameKey :UInt64, id :UInt64, runCredits :UInt32,
              copyCredits :UInt32 = 1024, leaseMs :Int64, process :Int64, name :Text);
  # A client joins, under TLS with an owner's certificate. `process` is the process id of the
  # client, and in the answer that of the controller; 0 in a simulation, and in the answer to
  # another machine. `frameKey` opens the client's frame stream, again and again; with `id` it also
  # opens the session again (attach). The client names its arrays and runs (id << 40) + 1, 2, 3 ...
  # At most `runCredits` of its runs and `copyCredits` of its puts and gets may be under way: the
  # controller ends its connection if it submits more.
  # `name` is the name of the client's program. If another live program of its owner has the name,
  # the call is refused (kInvalid), or, with `numberName`, the program gets a number behind its
  # name. `nonce` is the client's own choice: a client whose connection was lost before the answer
  # came asks again with the same nonce and gets the session that it has already. With `attach` the
  # client joins the detached program of this name instead of a new one, and `share` is ignored;
  # kInvalid if its owner has no such program, or the program has a client.

  status @2 (version :Version)
         -> (hosts :List(HostStatus), metrics :Text, programs :List(ProgramStatus),
             certificateEndsS :Int64);
  # The registered executors, for `gangway devices --connect`, and the connected clients, for
  # `gangway ps`. `metrics` are the controller's, in the text format of Prometheus. Only the
  # operator, who runs the controller, gets everything. Others get no metrics, and of programs that
  # are not theirs the owner and what the programs use, not the name. `certificateEndsS`: when the
  # controller's certificate ends, in seconds since 1970; 0: there is no TLS.

  attach @3 (version :Version, id :UInt64, key :UInt64, watch :ClientWatch) -> (session :Session);
  # A client that has lost its connection goes on over this one, and no more over any other.
  # kUnavailable if there is no such session, or the key is wrong. Over this connection the
  # controller calls `watch`, which may be missing, here and in connect.

  stop @4 (version :Version, name :Text, graceMs :Int64) -> (byForce :Bool);
  # Ends the program of this name that the peer's owner has. The operator may end any program, and
  # names it owner/name. A repetition ends between two steps. The program's client is asked to end,
  # and may end by itself; after the grace the controller ends by force what is left. Answers when
  # the program has ended. The error is the same kInvalid for a name that nobody has and for another
  # owner's program.

  drain @5 (version :Version, host :Text, undo :Bool);
  # The host of this name gets no new slices; with `undo` it gets some again. Slices that lie on it
  # stay.

  forget @6 (version :Version, host :Text);
  # Forgets the name of a host that is gone, and whether it was drained. kInvalid for a host that is
  # there. Only the operator may call drain() and forget(). Both give kInvalid for a name that no
  # host has, and say which names there are.

  suspend @7 (version :Version, name :Text, undo :Bool) -> (bytes :Int64);
  # A program, named as in stop(), begins no runs from now on. Once its runs under way have ended,
  # its states, which have `bytes` bytes, go to the memory of their hosts, and all its memory on
  # devices is free again. Answers then. With `undo` the program gets its memory again and goes on;
  # if the memory does not fit, it stays suspended (kOverloaded). Asking again for either is no
  # error and does nothing.

  logs @8 (version :Version, name :Text, program :UInt64, after :UInt64, waitMs :Int64)
       -> (program :UInt64, lines :List(LoggedLine), last :UInt64, ended :Bool);
  # The lines behind line `after` that are still kept in the log of a program, named as in stop(). A
  # program that has ended keeps its log for a while. `program` limits the call to the program of
  # that name with this session; 0: the program that has the name, or had it last. `waitMs`: if
  # there is no new line, the answer comes when there is one, when the program has ended, or when
  # this time has passed, a minute at most. `last`: the number of the newest line. Bounds:
  # protocol/program_log.h.

  graph @9 (version :Version, name :Text, executable :Text, plan :UInt64, why :Text)
        -> (program :Data, plan :Data, kinds :List(Text), placed :List(Text), text :Text);
  # The graph and plan that a program, named as in stop(), runs. The executable is the one with the
  # name `executable`, or that of `plan` if `plan` is not 0; if both are empty, the program's only
  # one. `program` is ir/wire/graph.capnp, `plan` is plan.capnp. `kinds` has the kind of devices of
  # each slice, and `placed` why the slice lies where it does. With `why` the answer is `text`
  # alone: what ir/explain/why.h says about it. The error is the same kInvalid for a name that
  # nobody has and for another owner's program.
}

struct LoggedLine {
  number @0 :UInt64;
  # Lines of a program are counted from 1; those that are missing were dropped.
  timeNs @1 :Int64;
  # Since 1970, by the controller's clock.
  ofProgram @2 :Bool;
  # The program's client sent the line; else the controller added it.
  text @3 :Text;
}

struct Share {
  # The claim of a client's program where others run on the same devices (protocol/share.h).
  weight @0 :Float64 = 1;
  priority @1 :Int32;
}

struct ProgramStatus {
  id @0 :UInt64;
  # The id of its session.
  name @1 :Text;
  share @2 :Share;
  used @3 :Float64;
  # Its part of the time of the devices that it may run on, over the last second.
  runsWaiting @4 :UInt64;
  runsInFlight @5 :UInt64;
  runsDone @6 :UInt64;
  owner @7 :Text;
  # The user whose program it is (protocol/owner.h).
  waitsFor @8 :Text;
  # "8 devices, for 12.00 s": slices that it waits for.
  reported @9 :List(ReportedNumber);
  # The numbers that it reported last.
  memoryBytes @10 :Int64;
  # Memory that is reserved for it, on all devices together.
  hosts @11 :List(Text);
  # Hosts on which its slices lie.
  devices @12 :UInt32;
  # Physical devices in its slices; a device that lies in several counts once.
  detached @13 :Bool;
  # It goes on without a client.
  suspended @14 :Bool;
  # Its runs wait until it is resumed.
  hostBytes @15 :Int64;
  # Bytes of its states in the memory of hosts, while it is suspended.
  checkpoint @16 :UInt64;
  # The version of its newest checkpoint that the cluster keeps; 0: there is none.
}

struct TextPair {
  key @0 :Text;
  text @1 :Text;
}

struct ReportedNumber {
  # A number that a program reports of itself (protocol/reported.h has the bounds).
  name @0 :Text;
  value @1 :Float64;
}

struct HostDescription {
  name @0 :Text;
  devices @1 :UInt32;
  memoryBytes @2 :Int64;
  # Memory of each device.
  kind @3 :Text;
  # "cpu", "sim", "cuda".
  text @4 :Text;
  # One line a device.
  process @5 :Int64;
  # Its number on the machine that it registers from; the controller looks it up on its own only.
  island @6 :Text;
  # Hosts of one island reach one another faster than others. 1 to 64 letters, digits, '-', '_' or
  # '.'.
  nameIsChosen @7 :Bool;
  # The host's user chose the name. Another host with the name is then a reason to refuse this one
  # (kInvalid, or kUnavailable if the other one may be gone soon). Without it the controller appends
  # a number to a name that is taken.
}

struct HostStatus {
  host @0 :HostDescription;
  memoryUsed @1 :Int64;
  # Memory that is reserved on its fullest device.
  runsDone @2 :UInt64;
  suspectMs @3 :Int64;
  # Time for which the host has been silent, once that is suspicious; 0: it is not.
  stuck @4 :List(Text);
  # Its devices whose work does not go on, and what each is stuck in.
  draining @5 :Bool;
  # It gets no new slices.
  drained @6 :Bool;
  # It is draining and nothing lies on it any more.
  certificateEndsS @7 :Int64;
  # When its certificate ends, in seconds since 1970; 0: it has shown none.
}

interface Registration {
  # Held by the executor. When the executor drops it, the controller removes the executor.

  leave @0 ();
  # The executor ends in order: the controller removes it, and does not count it as lost. A second
  # call is ignored.
}

struct DeviceNeed {
  device @0 :UInt32;
  arena @1 :Int64;
  state @2 :Int64;
  slots @3 :Int64;
  overlaid @4 :Int64;
}

struct LinkOffer {
  # Tells the peers of a host how to reach the memory in which it receives. Opaque to the
  # controller.
  host @0 :UInt32;  # Index of the host in the plan.
  bytes @1 :Data;
}

struct SourceText {
  # protocol/install.h
  path @0 :Text;
  bytes @1 :UInt64;
  hash @2 :Text;
}

interface Executor {
  # Implemented by executors, called by the controller. A plan becomes usable in three steps. Each
  # is done on all hosts of the plan before the next begins, so a plan that does not fit on one host
  # allocates nothing on the others.

  install @0 (plan :UInt64, bytes :Data, self :UInt32, scope :UInt64, ofOther :Bool,
              texts :List(SourceText), owner :Text)
          -> (needs :List(DeviceNeed), offers :List(LinkOffer), texts :List(SourceText),
              writesTo :List(UInt32));
  # The executor verifies and compiles the plan and plans its memory. `bytes` is plan.capnp,
  # verified on reading. `self` is this host's index in the plan. `ofOther`: the owner of the plan
  # is not the operator. Its sources then read only files in folders that the executor trusts, and
  # all programs of `owner` together get at most half of the memory that the host has for texts.
  # `texts` are the texts that the plan's sources read, as they were when the plan was first
  # installed: of these paths no more bytes are read. The answer's `texts` are those that the host
  # has read, and the controller compares those of all hosts. `writesTo` are the indices in the plan
  # of the other hosts that this one writes to. The bytes of the plan go to a host once, however
  # many devices it has there; once more, under another number, if hosts have read other texts.

  link @1 (plan :UInt64, offers :List(LinkOffer));
  # The offers of the hosts that this one writes to, as its answer to install() named them.

  commitInstall @2 (plan :UInt64);
  # Allocates memory and computes the first values of new states.

  moveStates @3 (plans :List(UInt64), scopes :List(UInt64), toHost :Bool) -> (bytes :Int64);
  # Moves the states of these scopes to host memory and frees all other memory that these plans have
  # on devices; or brings everything back to where it was. All of it or nothing: after an error
  # everything is as before. No run of the plans is under way, and nothing reads or writes the
  # states. Plans and scopes that the host does not have are ignored. `bytes`: size of the states.

  # Checkpoints (protocol/checkpoint_files.h). Hosts copy states into a segment of one executor, or
  # out of it, with the copies of frames.capnp. That executor writes and reads the files.

  makeSegment @4 (bytes :UInt64) -> (number :UInt64, segment :Frames.Segment);
  # Creates a zeroed segment of the executor, which lives until it is closed or the controller has
  # gone. Number and size are bounded.

  writeCheckpoint @5 (number :UInt64, files :CheckpointFiles);
  # Writes the tensors in the segment to files; returns when the files are on the disk. After an
  # error the earlier checkpoints are whole, and the newest is still the newest.

  readCheckpoint @6 (number :UInt64, files :CheckpointFiles) -> (missing :List(Text));
  # Reads files into the segment. kInvalid if a file does not exist or lacks one of these tensors,
  # unless the tensor may be missing: `missing` names those that are.

  closeSegment @7 (number :UInt64);

  timeline @8 (eventsMax :UInt32) -> (timeline :HostTimeline);
  # The last events of each row that the executor keeps, at most `eventsMax` of a row.
}

struct HostTimeline {
  # A TraceDump (runtime/observe/trace.h).
  process @0 :Text;
  names @1 :List(Text);
  rows @2 :List(Row);

  struct Row {
    name @0 :Text;
    lost @1 :UInt64;
    events @2 :List(Event);
  }
  struct Event {
    beginNs @0 :Int64;
    endNs @1 :Int64;
    run @2 :UInt64;
    node @3 :UInt64;
    step @4 :UInt64;
    name @5 :UInt16;  # Index into `names`.
    mark @6 :UInt8;
  }
}

struct CheckpointFiles {
  folder @0 :Text;
  version @1 :UInt64;
  tensors @2 :List(StoredTensor);
  keep @3 :UInt32;
  known @4 :UInt64;  # A version that stays; 0: files in the folder are an earlier program's.
  metadata @5 :List(TextPair);
  ownerBytesMax @6 :UInt64 = 0xffffffffffffffff;
  # Limit on all files below the parent of `folder`, these included.

  struct StoredTensor {
    name @0 :Text;
    dtype @1 :UInt8;
    dims @2 :List(Int64);
    offset @3 :Int64;
    mayBeMissing @4 :Bool;
  }
}

interface Session {
  # A client's view of the controller, over one connection. `call` is the client's number for the
  # call, from 1. A call that was asked over an earlier connection gets the same answer here.
  # `releases` says how many frames of released calls the controller must have taken before it does
  # the call.

  allocate @0 (devices :UInt32, islands :UInt32, ranksPerDevice :UInt32 = 1, axes :List(UInt32),
               oneIsland :Bool, perHostMax :UInt32, memoryBytes :Int64, exclusive :Bool,
               waitMs :Int64, call :UInt64, releases :UInt64)
      -> (id :UInt64);
  # Allocates `devices` virtual devices, `ranksPerDevice` of them on each physical one, which must
  # divide them. The other parameters are as in protocol/slice_shape.h. A call that waits ends when
  # its client releases it. A released slice gives its devices back when no executable uses them.

  compile @1 (program :Data, slices :List(UInt64), runsInFlightMax :UInt32, dispatch :UInt8,
              watch :CompileWatch, call :UInt64, releases :UInt64, name :Text) -> Compiled;
  # `program` is ir/wire/graph.capnp. `slices` has one id for each slice of the program. `dispatch`
  # is as in ir/plan/plan.capnp. The controller reports its progress to `watch`, which may be
  # missing, over the connection of the first call. Returns when the plan is installed on all its
  # hosts. The plan of a released executable is uninstalled after its last run. `name`: a client
  # that attaches to the program finds the executable under this name, which an earlier executable
  # loses; empty: it finds none. A plan that turns out to have too little room is compiled again by
  # the controller, which runs its runs again: its id and its ports stay.

  setShare @2 (share :Share);
  # The share holds from now on.

  report @3 (numbers :List(ReportedNumber));
  # Replaces the numbers that the client's program reported before. A client sends a report at most
  # five times a second.

  close @4 ();
  # Ends the session: all that the client holds is freed.

  detach @5 (releases :UInt64);
  # The client goes, and the program stays. Runs that were sent before go on, and so do repetitions.
  # Arrays are freed, and calls under way end.

  holdings @6 () -> (slices :List(HeldSlice), executables :List(HeldExecutable), lastCall :UInt64,
                     releases :UInt64, lastName :UInt64, lastRequest :UInt64);
  # All that the session has, for a client that has attached to it. The client goes on from here to
  # count calls, releases, names of runs and arrays, and requests.

  repeat @7 (plan :UInt64, steps :Int64, inputs :List(ScheduledInput), firstName :UInt64,
             position :UInt64, after :UInt64, number :UInt64, releases :UInt64);
  # The controller enqueues `steps` runs of the plan by itself, with these inputs, as many ahead as
  # the plan may have in flight, until one fails. Step i is the run firstName + i * (outputs + 1),
  # and its outputs have the names behind that; its sources are at `position` + i. The first step
  # comes after the run `after`; 0: after none. Until the last step has ended, the client's own runs
  # of the plan are refused. A plan has one repetition at a time. `number` is the client's number
  # for the repetition, and grows: a call that is repeated with the same number begins the
  # repetition once.

  repetition @8 (plan :UInt64, cancel :Bool, wait :Bool)
             -> (number :UInt64, steps :Int64, done :Int64, position :UInt64, ended :Bool,
                 error :Frames.Error, outputs :List(ReportedNumber));
  # Tells about the plan's last repetition; number 0: there was none. With `cancel` the controller
  # enqueues no more steps. With `wait` the answer comes once all enqueued steps have ended.
  # `position` is that of the next step's sources. `error` says why the repetition ended early.
  # `outputs` are the scalars of the last step that has committed.

  allowRead @9 (slice :UInt64, owner :Text);
  # Programs of that owner may read the states that are named in this slice of the client's; "*":
  # programs of all owners. A client lets others read one of its slices.

  openStates @10 (program :Text) -> (states :UInt64, list :List(Port));
  # `program` is "owner/name", or a name of the client's own owner. kInvalid if this client may read
  # the states of no such program.

  readStates @11 (states :UInt64, version :UInt64, latest :Bool, segment :Frames.Segment,
                 parts :List(StatePart), call :UInt64, releases :UInt64,
                 errorInAnswer :Bool)
             -> (version :UInt64, past :Bool, comesAgain :Bool, error :Frames.Error,
                 settled :Bool);
  # The hosts copy one version of these states into the client's segment: the latest, or one that
  # the call waits for. A call that waits ends when its client releases it. `past`: that version was
  # past, and the runs that have begun lead to `version`. `comesAgain`: a host was lost while it
  # copied, and the program is being recovered. The client asks again, with other memory.
  # kUnavailable: the program has ended, or does not let the client read it. `settled`: no host
  # writes to the segment any more; false: a host that was lost may do so also after the answer.
  # With `errorInAnswer` an error comes as `error` with `settled`, and the client releases the call.
  # Without it, and if the call is refused before the states are looked for, an error comes as the
  # call's own and says nothing about the segment.

  keepCheckpoints @12 (slice :UInt64, every :UInt64, keep :UInt32, elastic :List(Text),
                       metadata :List(TextPair), first :UInt64);
  # From now on the controller has a checkpoint of the states that are named in this slice written
  # at each multiple of `every` versions, and the newest `keep` stay. A client keeps checkpoints of
  # one slice; the options of a second call replace those of the first. kInvalid if the controller
  # has no folder for checkpoints. `first`: as RecoveryOptions (protocol/recovery_options.h).

  log @13 (first :UInt64, lines :List(Text));
  # Adds lines to the program's log, behind the `first` lines that this client has sent before.
  # Lines that the controller has already are ignored; if lines between are missing, they were
  # dropped. Bounds: protocol/program_log.h.

  struct StatePart {
    name @0 :Text;
    # A whole state, in row-major order.
    offset @1 :Int64;
    bytes @2 :Int64;
    # Place in the segment.
  }
  struct Compiled {
    plan @0 :UInt64;
    scope @1 :UInt64;
    inputs @2 :List(Port);
    outputs @3 :List(Port);
    states @4 :List(Port);
    sources @5 :UInt32;
    text @6 :Text;
    # The plan's text for people.
    needs @7 :List(HostNeeds);
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
  struct HeldSlice {
    id @0 :UInt64;
    devices @1 :UInt32;
    # Number of virtual devices.
    ranksPerDevice @2 :UInt32;
  }
  struct HeldExecutable {
    name @0 :Text;
    compiled @1 :Compiled;
    program @2 :Data;
    # The program as the client sent it.
    slices @3 :List(UInt64);
    runsInFlightMax @4 :UInt32;
    position @5 :UInt64;
    # Position of the sources in the next run.
  }
  struct ScheduledInput {
    input @0 :UInt32;
    union {
      constant @1 :Data;
      # The whole tensor. All constant inputs together have at most as many bytes as may travel with
      # a run.
      linear :group {
        first @2 :Float64;
        slope @3 :Float64;
      }
      # Earlier releases had two more forms here, with the numbers 4 to 9. A form that comes later
      # takes these numbers again only with another version of the protocol.
    }
  }
}

interface ClientWatch {
  # Implemented by a client.

  stop @0 (by :Text, graceMs :Int64, controllerEnds :Bool) -> (acts :Bool);
  # Asks the client, in the name of the owner `by`, to end its program, which the controller ends by
  # force after `graceMs`. With `controllerEnds` the controller itself ends, and asks this of all
  # programs that end with it. `acts`: the client's user looks at the request, so that it is worth
  # waiting for.
}

interface CompileWatch {
  # Implemented by a client that waits for a compile.

  told @0 (what :Text, part :Float64);
  # Called at most a hundred times. `what` is a text such as "step: partition"; `part` of the
  # controller's work is done.
}
