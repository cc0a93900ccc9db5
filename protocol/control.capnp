# Control: what client, controller and executors ask of one another to set things up.
#
# Everything here is rare (once a process, a slice or a program), so that it may cost a round trip.
# What happens with every run goes through frames (frames.capnp).
#
# Errors are exceptions that carry a whole gangway::Error (runtime/fibers/kj_error.h).
#
# Sessions. What a client holds belongs to its session, not to a connection. The session ends when
# the client closes it, when its process has ended, and when its lease is over: when it has been
# without a connection for so long. Until then a client whose connection was lost attaches again,
# over a new one, and its frame stream brings both sides what they missed (frames.capnp). A call
# that was under way is asked again under the number that the client gave it, and done once. What a
# call made is let go by a frame that names the number (frames.capnp: release), so that it comes
# behind the runs that use it; a call may say behind how many such frames it is to be done.
#
# A client may detach: then its session goes on without one, and without a lease, as the program of
# its owner and name. A later client attaches to it by name, and holds all that it has. One that
# dies instead of closing leaves it detached once more.

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

  connect @1 (version :Version, machine :Machine, name :Text, share :Share, process :Int64,
              nonce :UInt64, numberName :Bool, attach :Bool, watch :ClientWatch)
          -> (session :Session, frameKey :UInt64, id :UInt64, runCredits :UInt32,
              copyCredits :UInt32 = 1024, leaseMs :Int64, process :Int64, name :Text);
  # A client joins, which runs in `process`, as the controller does in the `process` that it names;
  # 0: in none that the system could be asked for. `frameKey` opens the client's frame stream, again
  # and again, and with `id` the way back to the session. The client names its arrays and runs
  # (id << 40) + 1, 2, 3 ... It may have submitted `runCredits` runs and `copyCredits` puts and gets
  # that have not ended: the controller ends its connection if it submits more.
  # `name`: of the client's program, which no other live program of its owner has: one that is taken
  # is refused (kInvalid), or, with `numberName`, given a number. `nonce`: the client's own choice;
  # one that asks again with it, since its connection was lost before the answer came, is given the
  # session that it has already. `attach`: to the detached program of this name, in place of a new
  # one; `share` says nothing then. kInvalid where the owner has none, or it has a client.

  status @2 (version :Version)
         -> (hosts :List(HostStatus), metrics :Text, programs :List(ProgramStatus));
  # The registered executors, for `gangway devices --connect`, and the connected clients, for
  # `gangway ps`. `metrics`: the controller's, in the text format of Prometheus. Only who runs the
  # controller is told all. Others see of programs that are not theirs the owner and what they use,
  # not the name, and no metrics.

  attach @3 (version :Version, id :UInt64, key :UInt64, watch :ClientWatch) -> (session :Session);
  # A client has lost its connection: it goes on over this one, and no more over any other.
  # kUnavailable where there is no such session, and for a wrong key. `watch`, also of connect: whom
  # to tell over this connection; it may be missing.

  stop @4 (version :Version, name :Text, graceMs :Int64) -> (byForce :Bool);
  # Ends a program of the peer's owner, of this name; for who runs the controller of any, which is
  # named owner/name. A repetition ends between two steps. The program's client is told, and may end
  # by itself; what has not ended within the grace is ended by force. Answers when it has ended.
  # kInvalid, and the same, for a name that nobody has and for another's.

  drain @5 (version :Version, host :Text, undo :Bool);
  # The host of this name gets no new slices; with `undo` it does again. What lies on it stays.

  forget @6 (version :Version, host :Text);
  # The name of a host that is gone, and whether it is drained, is kept no longer. kInvalid for one
  # that is there. Both are for who runs the controller alone, and kInvalid for a name that nobody
  # has, saying which there are.

  suspend @7 (version :Version, name :Text, undo :Bool) -> (bytes :Int64);
  # A program as in stop() begins no runs from now on; once those under way have ended, its states
  # go to the memory of their hosts, so many `bytes`, and devices have its memory back. Answers
  # then. With `undo` it gets its memory again (kOverloaded, and it stays suspended, where that does
  # not fit), and goes on. Either is done once: nothing is wrong with asking again.

  logs @8 (version :Version, name :Text, program :UInt64, after :UInt64, waitMs :Int64)
       -> (program :UInt64, lines :List(LoggedLine), last :UInt64, ended :Bool);
  # What was logged of a program, as in stop(), behind line `after`: what is kept of it. Also of one
  # that has ended, for a while. `program`: of that name, the one of this session alone; 0: the one
  # that has it, or had it last. `waitMs`: where nothing is new, the answer comes when something is,
  # the program has ended, or so long has passed, a minute at most. `last`: the number of the newest
  # line. Bounds: protocol/program_log.h.

  graph @9 (version :Version, name :Text, executable :Text, plan :UInt64, why :Text)
        -> (program :Data, plan :Data, kinds :List(Text), placed :List(Text), text :Text);
  # What a program, as in stop(), runs: its executable of this name, or of this plan where that is
  # not 0; where both are empty, the only one. `program` is ir/wire/graph.capnp, `plan` is
  # plan.capnp. By slice: `kinds` of devices, and why it was `placed` where it lies. With `why` the
  # answer is `text` alone: what ir/explain/why.h says of that. kInvalid, and the same, for a name
  # that nobody has and for another's.
}

struct LoggedLine {
  number @0 :UInt64;
  # Lines of a program are counted from 1; those that are missing were dropped.
  timeNs @1 :Int64;
  # Since 1970, by the controller's clock.
  ofProgram @2 :Bool;
  # Its client said it; else the controller did.
  text @3 :Text;
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
  detached @13 :Bool;
  # It goes on without a client.
  suspended @14 :Bool;
  # Its runs wait until it is resumed.
  hostBytes @15 :Int64;
  # Then: of its states in the memory of hosts.
  checkpoint @16 :UInt64;
  # The version of its newest checkpoint that the cluster keeps; 0: there is none.
}

struct TextPair {
  key @0 :Text;
  text @1 :Text;
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
  nameIsChosen @7 :Bool;
  # By its user: another host of the name that is there is a reason to refuse it (kInvalid, or
  # kUnavailable where that one may be gone soon). Otherwise it gets a number behind the name.
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
  draining @5 :Bool;
  # It gets no new slices.
  drained @6 :Bool;
  # That, and nothing lies on it any more.
}

interface Registration {
  # Held by the executor. When the executor drops it, the controller removes the executor.

  leave @0 ();
  # The executor ends in order: the controller removes it, and does not count it as lost. Once more
  # is ignored.
}

struct DeviceNeed {
  device @0 :UInt32;
  arena @1 :Int64;
  state @2 :Int64;
  slots @3 :Int64;
  overlaid @4 :Int64;
}

struct LinkOffer {
  # Opaque to the controller: how the peers of a host reach the memory in which it receives.
  host @0 :UInt32;  # Of the plan.
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
          -> (needs :List(DeviceNeed), offers :List(LinkOffer), texts :List(SourceText));
  # The executor verifies and compiles the plan and plans its memory. `bytes` is plan.capnp,
  # verified on reading. `self`: this host's index in the plan. `ofOther`: its owner is not who runs
  # the controller, so its sources read no files but those of folders that the executor trusts, and
  # all programs of its `owner` together at most half of the memory that the host has for texts.
  # `texts`: those that its sources read, as they were when it was installed first: of these paths
  # no more bytes are read. In the answer: what the host has read. The controller compares them.

  link @1 (plan :UInt64, offers :List(LinkOffer));
  # The offers of all hosts of the plan; a host opens those of the hosts that it writes to.

  commitInstall @2 (plan :UInt64);
  # Allocates memory and computes the first values of new states.

  moveStates @3 (plans :List(UInt64), scopes :List(UInt64), toHost :Bool) -> (bytes :Int64);
  # The states of these scopes go to host memory, and all other memory that these plans have on
  # devices is given back; or everything comes back to where it was. All of it or nothing: after an
  # error everything is as before. No run of the plans is under way, and nothing reads or writes
  # the states. Plans and scopes that are not here are passed over. `bytes`: of the states.

  # Checkpoints (protocol/checkpoint_files.h). Hosts copy states into a segment of one executor, or
  # out of it, with the copies of frames.capnp; it writes and reads the files.

  makeSegment @4 (bytes :UInt64) -> (number :UInt64, segment :Frames.Segment);
  # Memory of the executor, zeroed, until it is closed or the controller has gone. Bounded.

  writeCheckpoint @5 (number :UInt64, files :CheckpointFiles);
  # What lies in the segment becomes files; returns when they are on the disk. After an error the
  # checkpoints that there were are whole, and the newest is still the newest.

  readCheckpoint @6 (number :UInt64, files :CheckpointFiles) -> (missing :List(Text));
  # The other way. kInvalid for files that are not there, or do not have these tensors, but for
  # those that may be missing: of these, `missing` are.

  closeSegment @7 (number :UInt64);

  timeline @8 (eventsMax :UInt32) -> (timeline :HostTimeline);
  # The last events of each row that the executor keeps, at most so many of a row.
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
    name @5 :UInt16;  # A number of `names`.
    mark @6 :UInt8;
  }
}

struct CheckpointFiles {
  folder @0 :Text;
  version @1 :UInt64;
  tensors @2 :List(StoredTensor);
  keep @3 :UInt32;
  known @4 :UInt64;  # A version that stays; 0: what lies there is an earlier program's.
  metadata @5 :List(TextPair);
  ownerBytesMax @6 :UInt64 = 0xffffffffffffffff;
  # Of all files below the folder that this one lies in, these included.

  struct StoredTensor {
    name @0 :Text;
    dtype @1 :UInt8;
    dims @2 :List(Int64);
    offset @3 :Int64;
    mayBeMissing @4 :Bool;
  }
}

interface Session {
  # A client's view of the controller, over one connection. `call`: the client's number for what it
  # asks, from 1; one that was asked over an earlier connection is answered as it was there.
  # `releases`: how many frames of released calls are to be taken before.

  allocate @0 (devices :UInt32, islands :UInt32, ranksPerDevice :UInt32 = 1, axes :List(UInt32),
               oneIsland :Bool, perHostMax :UInt32, memoryBytes :Int64, exclusive :Bool,
               waitMs :Int64, call :UInt64, releases :UInt64)
      -> (id :UInt64);
  # Virtual devices, `ranksPerDevice` of them on each physical one, which must divide them. The rest
  # is as in protocol/slice_shape.h. A call that waits ends when its client releases it. Once
  # released, the devices are given back when no executable uses them.

  compile @1 (program :Data, slices :List(UInt64), runsInFlightMax :UInt32, dispatch :UInt8,
              watch :CompileWatch, call :UInt64, releases :UInt64, name :Text,
              texts :List(SourceText)) -> Compiled;
  # `program` is ir/wire/graph.capnp. `slices`: one id for each slice of the program. `dispatch`:
  # as in ir/plan/plan.capnp. `watch`, which may be missing, is told of how far it is, over the
  # connection on which it was asked first. Returns when the plan is installed on all its hosts.
  # Once released, the plan is uninstalled after its last run. `name`: under which who attaches to
  # the program finds the executable, in place of an earlier one of the name; empty: not at all.
  # `texts`: of the plan in whose place this one comes, so that its sources read the same; empty: as
  # they lie there now.

  setShare @2 (share :Share);
  # From now on.

  report @3 (numbers :List(ReportedNumber));
  # In place of what the client's program said of itself before. A client sends one at most five
  # times a second.

  close @4 ();
  # Ends the session: all that the client holds is freed.

  detach @5 (releases :UInt64);
  # The client goes, and the program stays. Runs that were sent before go on, and so do repetitions;
  # arrays are freed, and calls under way end.

  holdings @6 () -> (slices :List(HeldSlice), executables :List(HeldExecutable), lastCall :UInt64,
                     releases :UInt64, lastName :UInt64, lastRequest :UInt64);
  # What the session has, for a client that has attached to it, which goes on to count calls,
  # releases, names of runs and arrays, and requests from here.

  repeat @7 (plan :UInt64, steps :Int64, inputs :List(ScheduledInput), firstName :UInt64,
             position :UInt64, after :UInt64, number :UInt64, releases :UInt64);
  # The controller enqueues so many runs of the plan by itself, with these inputs, as many ahead as
  # the plan may have in flight, until one fails. Step i is the run firstName + i * (outputs + 1),
  # and its outputs have the names behind that; its sources are at `position` + i. The first comes
  # after the run `after`; 0: none. Until the last has ended, the client's own runs of the plan are
  # refused. One repetition of a plan at a time. `number`: the client's, which grows; asked again
  # with it, it is begun once. Bounds: protocol/schedule.h.

  repetition @8 (plan :UInt64, cancel :Bool, wait :Bool)
             -> (number :UInt64, steps :Int64, done :Int64, position :UInt64, ended :Bool,
                 error :Frames.Error, outputs :List(ReportedNumber));
  # Of the plan's last one; number 0: there was none. `cancel`: no step is enqueued any more.
  # `wait`: answers once all that were have ended. `position`: of the next step's sources. `error`:
  # why it ended early. `outputs`: the scalars of the last step that has committed.

  allowRead @9 (slice :UInt64, owner :Text);
  # Programs of that owner may read the states that are named in this slice of the client's; "*":
  # everyone's. A client lets others read one slice of its.

  openStates @10 (program :Text) -> (states :UInt64, list :List(Port));
  # `program`: "owner/name", or a name of the client's own owner. kInvalid where there is none whose
  # states this client may read.

  readStates @11 (states :UInt64, version :UInt64, latest :Bool, segment :Frames.Segment,
                 parts :List(StatePart), call :UInt64, releases :UInt64,
                 errorInAnswer :Bool)
             -> (version :UInt64, past :Bool, comesAgain :Bool, error :Frames.Error,
                 settled :Bool);
  # Has the hosts copy one version of these states into the client's segment: the latest, or one
  # that is waited for. A call that waits ends when its client releases it. `past`: that version was
  # past, and the runs that have begun lead to `version`. `comesAgain`: a host was lost while it
  # copied, and the program is being brought back: the client asks again, with other memory.
  # kUnavailable: the program has ended, or does not let the client read it. `settled`: no host
  # writes to the segment any more; false: a host that was lost may do so also after the answer.
  # `errorInAnswer`: an error comes as `error` with `settled`, and the client releases the call.
  # Without it, and where the call is refused before the states are looked for, an error comes as
  # the call's own and says nothing of the segment.

  keepCheckpoints @12 (slice :UInt64, every :UInt64, keep :UInt32, elastic :List(Text),
                       metadata :List(TextPair), first :UInt64);
  # From now on a checkpoint of the states that are named in this slice is written at each multiple
  # of `every` versions, and the newest `keep` stay. A client keeps those of one slice; asked again,
  # the new options hold. kInvalid where the controller has no folder for them. `first`: as
  # RecoveryOptions (protocol/recovery_options.h).

  log @13 (first :UInt64, lines :List(Text));
  # Lines for the program's log, behind `first` others that this client has said: those that came
  # already are passed over, and those between were dropped. Bounds: protocol/program_log.h.

  struct StatePart {
    name @0 :Text;
    # A whole state, in row-major order.
    offset @1 :Int64;
    bytes @2 :Int64;
    # In the segment.
  }
  struct Compiled {
    plan @0 :UInt64;
    scope @1 :UInt64;
    inputs @2 :List(Port);
    outputs @3 :List(Port);
    states @4 :List(Port);
    sources @5 :UInt32;
    text @6 :Text;
    # The plan as people read it.
    needs @7 :List(HostNeeds);
    texts @8 :List(SourceText);
    # That its sources read.
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
    # Virtual ones.
    ranksPerDevice @2 :UInt32;
  }
  struct HeldExecutable {
    name @0 :Text;
    compiled @1 :Compiled;
    program @2 :Data;
    # As it was sent.
    slices @3 :List(UInt64);
    runsInFlightMax @4 :UInt32;
    position @5 :UInt64;
    # Of the sources in the next run.
  }
  struct ScheduledInput {
    input @0 :UInt32;
    union {
      constant @1 :Data;
      # The whole tensor; of all inputs together at most as much as may travel with a run.
      linear :group {
        first @2 :Float64;
        slope @3 :Float64;
      }
      warmupCosine :group {
        peak @4 :Float64;
        warmup @5 :Int64;
        steps @6 :Int64;
        finalShare @7 :Float64;
        begin @8 :Int64;
      }
      list @9 :List(Float64);
    }
  }
}

interface ClientWatch {
  # Implemented by a client.

  stop @0 (by :Text, graceMs :Int64, controllerEnds :Bool) -> (acts :Bool);
  # An owner asks its program to end, which is ended by force when it has not in so long. With
  # `controllerEnds` the controller was told to end, and asks all programs that end with it. `acts`:
  # the client's user looks at that, so that it is worth waiting for.
}

interface CompileWatch {
  # Implemented by a client that waits for a compile.

  told @0 (what :Text, part :Float64);
  # At most a hundred times. `what`: "step: partition"; `part` of the controller's work is done.
}
