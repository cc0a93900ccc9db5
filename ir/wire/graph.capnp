# The wire form of functions and programs: what a client sends to the controller, what lies in a
# program file, and what a content-addressed cache stores.
#
# Rules for every message
#  - A reader first looks at `version`. It reads the versions that it knows; another one is refused
#    with a clear error, never guessed at. A change that old readers would misread takes a new
#    version, and a graph that does without it is still written as the version before.
#  - The message is packed (Cap'n Proto packing), one segment or several, and nothing follows it.
#  - Nothing is trusted. The reader bounds the traversal and the nesting, checks every index into a
#    table, and then runs the verifier over the graph that it built. Any bytes give a graph or an
#    error.
#  - A graph holds no addresses, times or machine names, so a copy or a repetition means the same as
#    the first, and order between graphs does not matter.
#  - Strings and types are written once, in tables of the message, and named by index: a model of
#    thousands of nodes has dozens of each. The order in the tables means nothing.
#  - Numbers of ops, element types and kinds are those of the enums in ir/ (append only).
@0xd3b1f2a9c47e5086;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("gangway::wire");

struct Graph {
  # The root. Sent by a client when it compiles a program, by the controller when it installs a
  # function on executors.
  version @0 :UInt32;
  strings @1 :List(Text);
  types @2 :List(Type);
  union {
    function @3 :Function;
    program @4 :Program;
  }
  bodies @5 :List(Function);
  # Bodies of scans and calls, each once. A body's own nodes name only bodies that stand before it.
}

struct Type {
  dtype @0 :UInt8;
  dims @1 :List(Int64);
}

struct MeshAxis {
  name @0 :UInt32;  # Index into strings, as every name below.
  size @1 :Int64;
}

struct Placement {
  kind @0 :UInt8;
  dim @1 :Int32;  # Dimension of a shard; else 0.

  # Since version 2, as are priorities: a graph without any of them is written as version 1.
  order @2 :UInt8;      # Order of a shard: lower is the outer cut of a dimension.
  reduction @3 :UInt8;  # Reduction of a partial: 0 sum, 1 maximum, 2 minimum.
}

struct AxisPlacement {
  axis @0 :UInt32;
  placement @1 :Placement;
  priority @2 :UInt8;  # Priority of a parameter: lower ones are propagated first.
}

struct Attr {
  # One attribute. A node has each name at most once; their order means nothing. Where a node of a
  # function lacks one, it is the default of the op's row, so that a message from before an
  # attribute came to be means what it did.
  name @0 :UInt32;
  union {
    flag @1 :Bool;
    integer @2 :Int64;
    real @3 :Float64;
    text @4 :UInt32;
    ints @5 :List(Int64);
    dtype @6 :UInt8;
    smallInts @7 :List(Int32);
    # Since version 3: as ints, of more than 16 numbers that all have 32 bits. The keys from which
    # the layers of a deep model begin take half of the message otherwise.
  }
}

struct Function {
  # Values are numbered: first the parameters, then the results of the nodes in order. A node does
  # not name its results, since their numbers follow from the counts before it.
  name @0 :UInt32;
  mesh @1 :List(MeshAxis);
  local @2 :Bool;
  parameters @3 :List(Parameter);
  valueTypes @4 :List(UInt32);  # Index into Graph.types, for each value.
  nodes @5 :List(Node);
  results @6 :List(UInt32);
  resultNames @7 :List(UInt32);

  # Propagated shardings: a table of the different ones, and an index into it for each value; no
  # entries at all before propagation.
  shardings @8 :List(Sharding);
  valueShardings @9 :List(UInt32);

  # Side tables, outside the content hash: the user's lines, and what nodes were derived from.
  infos @10 :List(NodeInfo);
  locs @11 :List(Loc);

  struct Parameter {
    name @0 :UInt32;
    placements @1 :List(AxisPlacement);
  }

  struct Node {
    op @0 :UInt16;
    results @1 :UInt32 = 1;
    region @2 :UInt32;
    inputs @3 :List(UInt32);
    attrs @4 :List(Attr);
    body @5 :Function;  # Body of a fusion; else null.
    sharedBody @6 :UInt32 = 0xffffffff;  # Body of a scan or call: index into Graph.bodies.
  }

  struct Sharding {
    placements @0 :List(Placement);  # One for each axis of the mesh.
  }

  struct NodeInfo {
    loc @0 :UInt32 = 0xffffffff;     # Index into locs; the default: unknown.
    origin @1 :UInt32 = 0xffffffff;  # A node; the default: none.
    reason @2 :UInt8;
  }
}

struct Loc {
  # A place in the user's program and the scope that was entered there. `parent` is a smaller index
  # of the same table, so chains end.
  file @0 :UInt32;
  line @1 :Int32;
  scope @2 :UInt32;
  parent @3 :UInt32 = 0xffffffff;
}

struct Program {
  # The inputs of a node are nodes of smaller index. A node stands for all its shards: the size of a
  # program does not depend on the number of devices.
  name @0 :UInt32;
  finiteOutput @1 :UInt32;  # The name of the output that must be finite; the empty string: none.
  slices @2 :List(Slice);
  functions @3 :List(Function);
  nodes @4 :List(Node);

  # Since version 4: a program that chooses none of these is written as before.
  deterministic @5 :UInt8;  # 0: not chosen, 1: true, 2: false.
  allowTf32 @6 :Bool;

  struct Slice {
    name @0 :UInt32;
    mesh @1 :List(MeshAxis);
  }

  struct Node {
    kind @0 :UInt8;
    name @1 :UInt32;
    slice @2 :UInt32;
    function @3 :UInt32 = 0xffffffff;  # Index into functions; the default: none.
    inputs @4 :List(Edge);
    updates @5 :List(StateUpdate);
    results @6 :List(Result);
    attrs @7 :List(Attr);
    firing @8 :FiringRule;  # Null: all inputs.
    loc @9 :Loc;            # Outside the content hash. Its parent is not used.

    # Layers of a state; null: the state is not stacked. Since version 3: a program without it is
    # written as before.
    stacked @10 :StackedLayers;
  }

  struct StackedLayers {
    # Each row is a layer; its number stands in front of the last nameTail components of the name.
    first @0 :Int64;
    count @1 :Int64;
    nameTail @2 :UInt32;
    base @3 :UInt32 = 0xffffffff;  # For the component in front of the number; the default: itself.
  }

  struct Edge {
    node @0 :UInt32;
    result @1 :UInt32;
    version @2 :Int64;  # Runs back. Reserved for asynchronous training: 0 in this version.
  }

  struct StateUpdate {
    result @0 :UInt32;
    state @1 :UInt32;
  }

  struct Result {
    type @0 :UInt32;
    placements @1 :List(AxisPlacement);
  }

  struct FiringRule {
    # Reserved for asynchronous training: `kind` is 0 (all inputs) in this version.
    kind @0 :UInt8;
    low @1 :Int64;
    high @2 :Int64;
  }
}
