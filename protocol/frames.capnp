# Frames: the one-way messages of the hot path.
#
# Where. Each peer of the controller (an executor, a client) has one RPC connection (control.capnp)
# and one frame stream. Frames are never answered one by one: what answers a frame is another frame,
# later, that names the same run or request.
#
# Order. A stream keeps order, and everything that names an installed plan is sent on it: run, free,
# uninstall, copies. An install is an RPC, and the controller waits for it on all hosts before it
# sends a frame that names the plan. So a run never arrives before its plan is installed, and a free
# or an uninstall never before the last run that it follows.
#
# Runs. A run reaches its hosts as two frames. `prepare` carries all that a host needs to do its
# work for the run at once; `grant` gives its parts their tickets, which say in which order devices
# do them. Of a plan that is dispatched sequentially (ir/plan/dispatch.h) a host does its work for a
# node when that is granted. A range of one slice goes to the hosts of that slice. A host refuses
# what breaks the order: an ordinal that is not the plan's next, a position that is not its run's
# next, a ticket that is not above all that it was granted before.
#
# Sharing. Both have the same bytes for every host: they are encoded once. The prefix is each
# stream's own.
#
# Loss. A stream (runtime/net/frames.h) loses, repeats and swaps nothing, also when its connection
# is lost and opened again: each frame has a sequence in its prefix, and is kept and sent again
# until it is acknowledged. The executor or client dials again. A stream ends for good when either
# side closes it, and when it has been without a connection for too long: an executor's for ten
# seconds, a client's for its lease. An executor's ends with its RPC connection too, since that
# means that its process has gone; then the controller drops it, and an executor that comes back
# registers again under a new identity. A client opens its RPC connection again as well, and goes on
# where it was (control.capnp).
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
    # Controller to executor: uninstall, of a plan that not all its hosts could install: frees the
    # states that it created too, unless another plan shares them.

    prepare @10 :Prepare;
    # Controller to executor: the executor binds the run's arguments, allocates its results and
    # waits for its grants. Never repeated.

    grant @11 :List(GrantRange);
    # Controller to executor. Ranges of runs that have ended on the host are ignored.

    progress @12 :List(SectionTime);
    # Executor to controller: what its devices have ended, and how long it took.

    warning @13 :Text;
    # Controller to client: a line for its user, at most 4096 bytes.

    release @14 :List(UInt64);
    # Client to controller: calls of the session (control.capnp) whose slices and executables it
    # needs no more. Behind all runs that named them; unknown ones are ignored.
  }
}

struct Argument {
  input @0 :UInt32;
  # Index into the plan's inputs; each appears once.
  union {
    array @1 :UInt64;
    inline @2 :Data;
    # The whole tensor in row-major order, of which each device takes its part. All of a run
    # together: at most 16 KiB. The controller passes them on unread.
  }
}

struct Run {
  plan @0 :UInt64;
  run @1 :UInt64;
  after @2 :UInt64;
  # A run of the same plan, by the name that the sender gave it: when it has not committed, this one
  # does not either. 0: none. Means nothing for plans that update no state.
  arguments @3 :List(Argument);
  outputs @4 :List(UInt64);
  # New ids for the results, as many as the plan has outputs.
  sourcePositions @5 :List(UInt64);
  # As many as the plan has sources.
  timeLimitMs @6 :Int64;
  # Client to controller only; 0: none. Counts from the frame's arrival.
}

struct Prepare {
  ordinal @0 :UInt64;
  # Counts the runs of the plan from 0. Transfers and sources go by it, so that one lost frame could
  # never shift them: a host refuses any but the next.
  run @1 :Run;
  # By the controller's name; without a time limit.
}

struct GrantRange {
  run @0 :UInt64;
  slice @1 :UInt32;
  # 4294967295: all slices of the plan; positions are then counted in the order of its nodes.
  first @2 :UInt32;
  count @3 :UInt32;
  # At least 1. A range never goes on across the gate, unless it is of all slices.
  ticket @4 :UInt64;
  # Of the first position; the others follow one by one. The gate has the same ticket in all slices.
  instance @5 :UInt32;
  choices @6 :List(UInt32);
  # 0 and none: for nodes that fire before all their inputs have come, which no plan has yet.
}

struct SectionTime {
  run @0 :UInt64;
  slice @1 :UInt32;
  positionEnd @2 :UInt32;
  # Of the host's devices in that slice, all have ended every position before this one.
  busyNs @3 :Int64;
  # Of the device that was busy longest, since the host's last report of this run and slice.
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
      # A version: what the state is after the runs that were granted before this frame.
    }
  }
  ticket @10 :UInt64;
  # Controller to executor, of a state: its place in the order of tickets.
  partBegin @11 :List(Int64);
  partSize @12 :List(Int64);
  # Of a state: the first row of the part in each dimension, and how many rows. Both empty: all.
}

struct CopyDone {
  request @0 :UInt64;
  error @1 :Error;
  # Null: the bytes have arrived.
  settled @2 :Bool;
  # Controller to client: all hosts that were to read or write the client's bytes have said that
  # they are done. False: one was lost before it said so, and may still write there when it goes on.
  comesAgain @3 :Bool;
  # Controller to client, of a get with an error: the program is being brought back. The client asks
  # again, with memory that no host has been told of.
}

struct SmallOutput {
  output @0 :UInt32;
  # Index into the plan's outputs.
  bytes @1 :Data;
  # At most 64.
}

struct RunDone {
  run @0 :UInt64;
  error @1 :Error;
  # Null: it committed.
  culprit @2 :Bool;
  # Executor to controller: this host raised the error; the others only heard of it.
  outputs @3 :List(SmallOutput);
  times @4 :List(SectionTime);
  # Executor to controller: what it has not told of yet, of this run.
  refused @5 :Bool;
  # Executor to controller, with an error: this host has taken no part in the run, and its peers
  # would wait for its part for ever. The controller gives the plan up on them.
}

struct Heartbeat {
  runsDone @0 :UInt64;
  # Since the executor started. It does not grow in an executor that is alive but stuck.
  movedInHost @1 :UInt64;
  movedInIsland @2 :UInt64;
  movedBetweenIslands @3 :UInt64;
  # Bytes that its devices moved since it started, by the class of the link.
  stuck @4 :List(StuckDevice);
  # All devices whose work does not go on, and no others. Sent at once when one becomes stuck.
  reactorLongestMs @5 :UInt32;
  # For how long its reactor was at most held up, since it started (runtime/fibers/stretch_watch.h).
}

struct StuckDevice {
  device @0 :UInt32;
  run @1 :UInt64;
  what @2 :Text;
  at @3 :Text;
  # The operation and the user's line.
  ms @4 :Int64;
  # For how long.
  waits @5 :Bool;
  # For other devices.
}
