#include "executor/devices/cuda/lower/command.h"

#include <memory>

namespace gangway::cuda {
namespace {

// Arguments of one launch, as the driver takes them. Each thread has one on the heap, since the
// stack of a fiber is small.
struct Written {
  void* addresses[Command::kArgumentsMax + Command::kPackedMax];
  const void* values[Command::kArgumentsMax];
  Access accesses[Command::kArgumentsMax + Command::kPackedMax];
};

Written& written() {
  thread_local const auto mine = std::make_unique<Written>();
  return *mine;
}

}  // namespace

Status Command::issue(Driver& driver, At at, std::byte* const* bases, uint32_t mesh_device) const {
  Written& out = written();
  size_t tensors = 0, filled = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    if (!argument.is_tensor) {
      out.values[filled++] = argument.value.data() + argument.value_stride * mesh_device;
      continue;
    }
    std::byte* const address = bases[argument.address.base] + argument.address.offset;
    out.accesses[tensors] = {address, argument.bytes, argument.access};
    // Packed tensors, which are one parameter of the kernel, take the first elements of the array;
    // the others come behind its room for more.
    void*& place = out.addresses[i < packed ? i : packed_capacity - packed + i];
    place = address;
    if (i == 0 || i >= packed) out.values[filled++] = static_cast<const void*>(&place);
    ++tensors;
  }
  for (size_t i = packed; i < packed_capacity; ++i) out.addresses[i] = nullptr;
  void** const addresses = out.addresses;
  const size_t count = arguments.size();
  switch (kind) {
    case Kind::kCopy:
      if (addresses[0] == addresses[1]) return {};  // The memory plan lets both share one buffer.
      return driver.copy(at, addresses[1], addresses[0], arguments[0].bytes);
    case Kind::kLibrary:
      return driver.run(at, operation, {addresses, count - 1}, addresses[count - 1]);
    case Kind::kLaunch: break;
  }
  return driver.launch(at, {.kernel = kernel,
                            .grid = grid,
                            .block = block,
                            .shared_bytes = shared_bytes,
                            .arguments = {out.values, filled},
                            .accesses = {out.accesses, tensors}});
}

}  // namespace gangway::cuda
