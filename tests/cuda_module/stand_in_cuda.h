// A CUDA runtime and an NCCL for the module's own sources on a machine without a card: they run
// nothing, and hold the callers to what the API's contract says of devices, shared memory, grids
// and communicators.
//
// Two cards. What a thread's current device is, which device a stream was made on, how much shared
// memory a kernel may have, which communicator has which address: as a real one would answer it.
// What the tests never call answers that it is not supported (stand_in_rest.cc).
//
// Threads: one. Ownership: one for the process; a test begins with reset().
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace gangway::cuda {

struct StandInCuda {
  static constexpr size_t kStaticBytes = 256;  // Shared memory that each kernel declares itself.
  static constexpr size_t kSharedBytesMax = 227
                                            << 10;  // Of a block that asks for more than 48 KiB.

  static StandInCuda& get();
  static void reset() { get() = {}; }

  static constexpr int kGreatestPriority = -5;  // The least is 0.

  std::set<int> devices_set;  // Each has a context then.
  std::vector<int> stream_priorities;
  std::vector<int> stream_devices;  // The current device as each stream was made.
  int dynamic_bytes_max = (48 << 10) - static_cast<int>(kStaticBytes);  // Of every kernel.
  int attributes_to_refuse = 0;  // How many of the next cudaFuncSetAttribute() fail.
  int kernels_loaded = 0;        // By cudaFuncGetAttributes(), which loads what it looks at.
  int launches = 0;
  std::vector<const void*> reduced;  // What ncclAllReduce() was given in groups that have ended.
  std::vector<const void*> group;    // The same of the group that is open.
  int communicators = 0, communicators_aborted = 0, communicators_destroyed = 0;
  int touched_after_their_end = 0;  // Calls that name a communicator where none is left.
  int looks_in_progress = 0;        // How many of the next queries answer ncclInProgress.
};

}  // namespace gangway::cuda
