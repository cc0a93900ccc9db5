// SliceShape: a client's request for a slice. Clients check it first; the controller, which trusts
// no client, checks it again.
//
// Threads: a value.
// Errors: require_possible() throws kInvalid with the numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace gangway {

inline constexpr int64_t kSliceWaitMsMax = int64_t{7} * 24 * 3600 * 1000;
inline constexpr size_t kSliceAxesMax = 16;
inline constexpr int64_t kSliceMemoryBytesMax = int64_t{1} << 62;

// A request for `devices` virtual devices, `ranks_per_device` of them on each physical one.
struct SliceShape {
  SliceShape(uint32_t virtual_devices, uint32_t on_each = 1)
      : devices(virtual_devices), ranks_per_device(on_each) {}

  uint32_t devices = 1;
  uint32_t ranks_per_device = 1;
  // Sizes of the mesh's axes, the outermost first. Their product is `devices`. Neighbours along the
  // innermost axes lie on one host if they can. Empty: the client did not say.
  std::vector<uint32_t> axes = {};
  bool one_island = false;
  uint32_t per_host_max = 0;  // Physical devices on one host; 0: as many as it has.
  int64_t memory_bytes = 0;   // Free on each physical device when the slice is allocated.
  bool exclusive = false;     // No other slice lies on its devices as long as this one lives.
  int64_t wait_ms = 0;        // Waits for devices that others hold or that are missing; 0: refuses.

  uint32_t physical() const { return devices / ranks_per_device; }
};

void require_ranks_divide(int64_t devices, int64_t ranks_per_device);
void require_possible(const SliceShape& shape);

}  // namespace gangway
