# Frames: the one-way messages of the hot path.
#
# Where. Each peer of the controller (an executor, a client) has one RPC connection (control.capnp)
# and one frame stream. A frame gets no reply of its own: it is answered by another frame, later,
# that names the same run or request.
#
# Order. A stream keeps order, and everything that names an installed plan is sent on it: run, free,
# uninstall, copies. An install is an RPC, and the controller waits for it on all hosts before it
# sends a frame that names the plan. A run therefore never arrives before its plan is installed, and
# a free or an uninstall never before the last run that it follows.
#
# Runs. A run reaches its hosts as two frames. `prepare` carries all that a host needs to do its
# work for the run at once; `grant` gives its positions their tickets, which say in which order
# devices do them. If the plan is dispatched sequentially (ir/plan/dispatch.h), a host does its work
# for a node when the node is granted. A range of one slice goes to the hosts of that slice. A host
# refuses what breaks the order: an ordinal that is not the plan's next, a position that is not its
# run's next, a ticket that is not above all that the host was granted before.
#
# Sharing. A `prepare` and a `grant` have the same bytes for every host: they are encoded once. The
# prefix is each stream's own.
#
# Loss. A stream (runtime/net/frames.h) loses, repeats and swaps nothing, also when its connection
# is lost and opened again: each frame has a sequence number in its prefix, and the sender keeps it
# and sends it again until it is acknowledged. The executor or client dials again. A stream ends for
# good when either side closes it, or when it has been without a connection for too long: an
# executor's for ten seconds, a client's for its lease. An executor's stream also ends with its RPC
# connection, since that means that its process has gone. The controller then drops the executor,
# and one that comes back registers again under a new identity. A client opens its RPC connection
# again as well, and goes on where it was (control.capnp).
#
# Trust. Every list length, id and offset is checked by the receiver before use; a malformed frame
# ends the connection of its sender, and nothing else.

@0xb5f1c0d7a9e24c31;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("gangway::wire");

struct Frame {
  union {
    uninstall @0 :UInt64;
    # Controller to executor: frees the plan, which is never named again. An unknown one is ignored.

    run @1 :Run;
    # Client to controller: asks for a run, under an id that the client chose. Never repeated.

    cancel @2 :Cancel;
    # Client to controller, which forwards it to the executors. Ignored after the run has ended.

    free @3 :List(UInt64);
    # Array ids that will not be named again. Client to controller: the client dropped its handles.
    # Controller to executor: no run uses them either, so the executor frees the arrays. Unknown ids
    # are ignored.

    copy @4 :Copy;
    # Client to controller to executors: put or get bytes, between the client's segment and an array
    # or state.

    copyDone @5 :CopyDone;
    # Executor to controller to client.

    runDone @6 :RunDone;
    # Executor to controller: this host's part of the run ended. Controller to client: the run ended
    # on all hosts. Exactly one for each run.

    heartbeat @7 :Heartbeat;
    # Executor to controller, every heartbeat interval. A client sends none: the controller notices
    # when its RPC connection ends.

    freeScope @8 :UInt64;
    # Controller to executor: frees all states of this scope.

    refused @9 :UInt64;
    # Controller to executor: uninstall, for a plan that not all its hosts could install. Also frees
    # the states that the plan created, unless another plan shares them.

    prepare @10 :Prepare;
    # Controller to executor: the executor binds the run's arguments, allocates its results and
    # waits for its grants. Never repeated.

    grant @11 :List(GrantRange);
    # Controller to executor. Ranges of runs that have ended on the host are ignored.

    progress @12 :List(SectionTime);
    # Executor to controller: positions that its devices have ended, and how long those took.

    warning @13 :Text;
    # Controller to client: a line for its user, at most 4096 bytes.

    release @14 :List(UInt64);
    # Client to controller: calls of the session (control.capnp) whose slices and executables the
    # client needs no more. It comes behind all runs that named them; unknown calls are ignored.

    linkBroken @15 :LinkBroken;
    # Executor to controller: what it writes to a peer's memory does not arrive any more, though its
    # connection to the controller stands. It is sent when a write fails, once for each plan that
    # uses the link; each end reports its own direction. The controller waits for what others report
    # and then decides (controller/scheduler/link_watch.h). A report is ignored if its plan is not
    # on hosts any more, if the sender does not write to that host of it, or if that host is lost.
    # One that is repeated before the controller has decided changes nothing.
  }
}

struct LinkBroken {
  plan @0 :UInt64;
  # The plan whose memory the sender writes there, by hosts' name for it.
  host @1 :UInt32;
  # The peer's index in the plan. A name would not do: another host may have it by now.
  why @2 :Text;
  # For people, at most 256 bytes.
}

struct Argument {
  input @0 :UInt32;
  # Index into the plan's inputs; each appears once.
  union {
    array @1 :UInt64;
    inline @2 :Data;
    # The whole tensor in row-major order, of which each device takes its part. All inline arguments
    # of a run have at most 16 KiB together. The controller passes them on unread.
  }
}

struct Run {
  plan @0 :UInt64;
  run @1 :UInt64;
  after @2 :UInt64;
  # A run of the same plan, by the name that the sender gave it. If that run has not committed, this
  # one does not either. 0: none. It means nothing for plans that update no state.
  arguments @3 :List(Argument);
  outputs @4 :List(UInt64);
  # New ids for the results, as many as the plan has outputs.
  sourcePositions @5 :List(UInt64);
  # Positions, as many as the plan has sources.
  timeLimitMs @6 :Int64;
  # Client to controller only; 0: none. Counts from the frame's arrival.
}

struct Prepare {
  ordinal @0 :UInt64;
  # Counts the runs of the plan from 0. Transfers and sources use it, so that a lost frame could
  # never shift them: a host refuses any ordinal but the next.
  run @1 :Run;
  # The run has the controller's name, and no time limit.
}

struct GrantRange {
  run @0 :UInt64;
  slice @1 :UInt32;
  # 4294967295: all slices of the plan; positions are then counted in the order of its nodes.
  first @2 :UInt32;
  count @3 :UInt32;
  # At least 1. A range never goes on across the gate, unless it covers all slices.
  ticket @4 :UInt64;
  # Ticket of the first position; the others follow one by one. The gate has the same ticket in all
  # slices.
}

struct SectionTime {
  run @0 :UInt64;
  slice @1 :UInt32;
  positionEnd @2 :UInt32;
  # All devices that the host has in that slice have ended every position before this one.
  busyNs @3 :Int64;
  # Time of the device that was busy longest, since the host's last report of this run and slice.
}

struct Cancel {
  run @0 :UInt64;
  error @1 :Error;
}

struct Error {
  # The parts of runtime/base/error.h's Error. An unknown kind reads as a bug.
  kind @0 :UInt8;
  message @1 :Text;
  program @2 :Text;
  node @3 :Text;
  host @4 :Text;
  device @5 :Text;
  at @6 :Text;
  hint @7 :Text;
  context @8 :List(Text);
}

struct Segment {
  # runtime/os/shared_segment.h: enough to map it in another process of the machine.
  pid @0 :Int32;
  fd @1 :Int32;
  bytes @2 :UInt64;
  token @3 :UInt64;
}

struct ClientBytes {
  segment @0 :Segment;
  offset @1 :Int64;
  bytes @2 :Int64;
}

struct Copy {
  request @0 :UInt64;
  # The client's number; the controller gives executors one of its own.
  at @1 :ClientBytes;
  # The whole tensor, or its part, in row-major order; each host takes or gives its shards.
  union {
    put :group {
      array @2 :UInt64;
      # A new id.
      plan @3 :UInt64;
      input @4 :UInt32;
      # Sharded like this input of this plan.
    }
    get :group {
      array @5 :UInt64;
    }
    putState :group {
      scope @6 :UInt64;
      name @7 :Text;
    }
    getState :group {
      scope @8 :UInt64;
      name @9 :Text;
      # The version that the state has after the runs that were granted before this frame.
    }
  }
  ticket @10 :UInt64;
  # Controller to executor, for a state: the copy's place in the order of tickets.
  partBegin @11 :List(Int64);
  partSize @12 :List(Int64);
  # For a state: the first row of the part in each dimension, and how many rows. Both empty: all.
}

struct CopyDone {
  request @0 :UInt64;
  error @1 :Error;
  # Null: the bytes have arrived.
  settled @2 :Bool;
  # Controller to client: all hosts that were to read or write the client's bytes have reported that
  # they are done. False: a host was lost before it reported, and may still write there when it goes
  # on.
  comesAgain @3 :Bool;
  # Controller to client, for a get with an error: the program is being recovered. The client asks
  # again, with memory that no host was told of.
}

struct SmallOutput {
  output @0 :UInt32;
  # Index into the plan's outputs.
  bytes @1 :Data;
  # The result, at most 64 bytes.
}

struct RunDone {
  run @0 :UInt64;
  error @1 :Error;
  # Null: it committed.
  culprit @2 :Bool;
  # Executor to controller: this host is the origin of the failure. The other hosts only received
  # the error.
  outputs @3 :List(SmallOutput);
  times @4 :List(SectionTime);
  # Executor to controller: times of this run that it has not reported yet.
  refused @5 :Bool;
  # Executor to controller, with an error: this host has taken no part in the run, and its peers
  # would wait for its part for ever. The controller gives the plan up on them.
}

struct Heartbeat {
  runsDone @0 :UInt64;
  # Runs done since the executor started. It does not grow in an executor that is alive but stuck.
  movedInHost @1 :UInt64;
  movedInIsland @2 :UInt64;
  movedBetweenIslands @3 :UInt64;
  # Bytes that its devices moved since it started, by the class of the link.
  stuck @4 :List(StuckDevice);
  # All devices whose work does not go on, and no others. Sent at once when one becomes stuck.
  reactorLongestMs @5 :UInt32;
  # Longest time for which its reactor was held up, since it started
  # (runtime/fibers/stretch_watch.h).
}

struct StuckDevice {
  device @0 :UInt32;
  run @1 :UInt64;
  what @2 :Text;
  at @3 :Text;
  # The operation and the user's line.
  ms @4 :Int64;
  # Time for which its work has not gone on.
  waits @5 :Bool;
  # It waits for other devices.
}
