// A CUDA runtime and an NCCL for the module's own sources on a machine without a card. They run
// nothing, and hold the callers to the API's contract about devices, shared memory, grids and
// communicators.
//
// There are two cards. Calls about a thread's current device, the device of a stream, a kernel's
// shared memory and a communicator's address are answered as a real runtime would. Functions that
// the tests never call answer that they are not supported (stand_in_rest.cc).
//
// Threads: one.
// Ownership: the process has one; a test begins with reset().
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace gangway::cuda {

struct StandInCuda {
  static constexpr size_t kStaticBytes = 256;  // Shared memory that each kernel declares itself.
  static constexpr size_t kSharedBytesMax = 227
                                            << 10;  // Most for a block that asks for over 48 KiB.

  static StandInCuda& get();
  static void reset() { get() = {}; }

  static constexpr int kGreatestPriority = -5;  // The least is 0.

  std::set<int> devices_set;  // Devices that were current once. Each has a context.
  std::vector<int> stream_priorities;
  std::vector<int> stream_devices;  // The current device when each stream was created.
  // Dynamic shared memory that every kernel may have.
  int dynamic_bytes_max = (48 << 10) - static_cast<int>(kStaticBytes);
  int attributes_to_refuse = 0;  // Number of next calls of cudaFuncSetAttribute() that fail.
  int kernels_loaded = 0;        // Calls of cudaFuncGetAttributes(), each of which loads a kernel.
  int launches = 0;
  std::vector<const void*> reduced;  // Inputs of ncclAllReduce() in groups that have ended.
  std::vector<const void*> group;    // Inputs of ncclAllReduce() in the open group.
  int communicators = 0, communicators_aborted = 0, communicators_destroyed = 0;
  int touched_after_their_end = 0;  // Calls that name a communicator when none is left.
  int looks_in_progress = 0;        // Number of next queries that answer ncclInProgress.
};

}  // namespace gangway::cuda
