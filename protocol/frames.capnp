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
# Sharing. A run has the same bytes for every host: it is encoded once. The prefix is each stream's
# own.
#
# Loss. A stream (runtime/net/frames.h) loses, repeats and swaps nothing, also when its connection
# is lost and opened again: each frame has a sequence in its prefix, and is kept and sent again
# until it is acknowledged. The executor or client dials again, for as long as its RPC connection
# stands and for ten seconds at most. A stream ends for good when that time is over, when either
# side closes it, and with the RPC connection, whose end means that the process has gone. Then the
# controller drops the peer: an executor that comes back registers again under a new identity, and
# what the controller knew of the old one is not used for it.
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
    # Client to controller: asks for a run, under an id that the client chose. Controller to
    # executor: starts the run, under the controller's id and with its tickets. Never repeated.

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
  }
}

struct Argument {
  input @0 :UInt32;
  # Index into the plan's inputs; each appears once.
  union {
    array @1 :UInt64;
    inline @2 :Data;
    # The value itself, replicated; at most 64 bytes.
  }
}

struct Run {
  plan @0 :UInt64;
  run @1 :UInt64;
  firstTicket @2 :UInt64;
  # Controller to executor only: node i of the plan has ticket firstTicket + i.
  arguments @3 :List(Argument);
  outputs @4 :List(UInt64);
  # New ids for the results, as many as the plan has outputs.
  sourcePositions @5 :List(UInt64);
  # As many as the plan has sources.
  timeLimitMs @6 :Int64;
  # Client to controller only; 0: none. Counts from the frame's arrival.
}

struct Cancel {
  run @0 :UInt64;
  error @1 :Error;
}

struct Error {
  # runtime/base/error.h, part by part. An unknown kind reads as a bug.
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
  # The whole tensor in row-major order; each host takes or gives its shards.
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
}

struct CopyDone {
  request @0 :UInt64;
  error @1 :Error;
  # Null: the bytes have arrived.
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
}

struct Heartbeat {
  runsDone @0 :UInt64;
  # Since the executor started. It does not grow in an executor that is alive but stuck.
  movedInHost @1 :UInt64;
  movedInIsland @2 :UInt64;
  movedBetweenIslands @3 :UInt64;
  # Bytes that its devices moved since it started, by the class of the link.
}
