# A schema for the tests of RPC alone: one interface that echoes.
@0xd6a1a7a4cbe6f1b2;
# Schema of the tests of runtime/net.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("gangway::test");

interface Echo {
  echo @0 (number :UInt64, data :Data) -> (number :UInt64, data :Data);
  # Answers after virtual or real time has passed.
  fail @1 () -> ();
  # Always throws a typed error.
}

struct Note {
  number @0 :UInt64;
  text @1 :Text;
}
