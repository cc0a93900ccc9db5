// PlantedTransferBugs: bugs of transfers (transfer_channel.h) that a test plants to show that it
// would find them. Only tests set them.
//
// Threads: a value.
#pragma once

namespace gangway {

struct PlantedTransferBugs {
  // The receiver gives a slot back when its payload arrives, though its run still reads it there.
  bool credit_at_arrival = false;
  // All runs in flight share one slot. This alone is slow but right, since with a slot for each run
  // in flight a sender never comes round to one that is in use.
  bool one_slot = false;
};

}  // namespace gangway
