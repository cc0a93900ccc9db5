# The wire form of a plan (ir/plan/plan.h says what each part means; the order and names are equal).
#
# Sent by the controller to every executor of the plan, in Executor.install, once. Functions are
# sent in their own wire form (ir/wire/graph.capnp) as bytes, so that one reader verifies them
# wherever they come from. A reader checks every index, count and type before it returns a plan;
# bytes that break a rule are an error, never a crash.

@0xe8b2f64d01a37c95;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("gangway::wire");

const planVersion :UInt32 = 2;
const planVersionMax :UInt32 = 3;
# 3: a value's placements have a cut order. A plan without one is written as version 2.

struct Plan {
  version @0 :UInt32;
  # planVersion to planVersionMax; another one is refused.
  name @1 :Text;
  hosts @2 :List(Text);
  slices @3 :List(Slice);
  functions @4 :List(LocalFunction);
  values @5 :List(Value);
  states @6 :List(State);
  nodes @7 :List(Node);
  inputs @8 :List(UInt32);
  sources @9 :List(UInt32);
  outputs @10 :List(UInt32);
  runsInFlightMax @11 :Int64;
  islands @12 :List(Text);
  # The island of each host; empty: all hosts lie in one.
  dispatch @13 :UInt8;
  # The numbers of dispatch.h: 0 parallel, 1 sequential.
  overlaid @14 :Bool;
  machines @15 :List(UInt32);
  # The number of the machine that each host is on; empty: all are on one.

  struct Axis {
    name @0 :Text;
    size @1 :Int64;
  }
  struct Range {
    host @0 :UInt32;
    first @1 :UInt32;
    count @2 :UInt32;
  }
  struct Slice {
    axes @0 :List(Axis);
    ranges @1 :List(Range);
    # No device appears twice; their counts, times ranksPerDevice, are the devices of the mesh.
    ranksPerDevice @2 :UInt32 = 1;
  }
  struct InPlace {
    parameter @0 :UInt32;
    result @1 :UInt32;
  }
  struct LocalFunction {
    function @0 :Data;
    commitBegin @1 :UInt32;
    inPlace @2 :List(InPlace);
    finiteResult @3 :UInt32;
    sections @4 :List(Section);
    # Ascending. Empty: the parts before and behind commitBegin are one each.
    deterministic @5 :UInt8;
    # 0: not chosen, 1: true, 2: false.
    allowTf32 @6 :Bool;
  }
  struct Section {
    begin @0 :UInt32;
    # A node of the function.
    modelledNs @1 :Int64;
  }
  struct Type {
    dtype @0 :UInt8;
    dims @1 :List(Int64);
  }
  struct Placement {
    kind @0 :UInt8;
    dim @1 :Int32;
    order @2 :UInt8;
  }
  struct Value {
    name @0 :Text;
    storage @1 :UInt8;
    slice @2 :UInt32;
    type @3 :Type;
    # The local type follows from it and the sharding.
    sharding @4 :List(Placement);
  }
  struct State {
    value @0 :UInt32;
    init @1 :Data;
  }
  struct Attr {
    name @0 :Text;
    value :union {
      flag @1 :Bool;
      integer @2 :Int64;
      real @3 :Float64;
      text @4 :Text;
      ints @5 :List(Int64);
      dtype @6 :UInt8;
    }
  }
  struct Input {
    value @0 :UInt32;
  }
  struct Node {
    kind @0 :UInt8;
    # PlanNodeKind, in its order.
    name @1 :Text;
    slice @2 :UInt32;
    function @3 :UInt32;
    call @4 :UInt32;
    inputs @5 :List(Input);
    results @6 :List(UInt32);
    attrs @7 :List(Attr);
    at @8 :Text;
    peer @9 :UInt32;
    # For a send the number of its receive, which comes later; for a receive that of its send.
  }
}
