#include "executor/devices/cuda/lower/command.h"

namespace gangway::cuda {

Status Command::issue(Driver& driver, At at, std::byte* const* bases, uint32_t mesh_device) const {
  void* addresses[kArgumentsMax];
  const void* values[kArgumentsMax];
  Access accesses[kArgumentsMax];
  size_t tensors = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    if (!argument.is_tensor) {
      values[i] = argument.value.data() + argument.value_stride * mesh_device;
      continue;
    }
    addresses[i] = bases[argument.place.base] + argument.place.offset;
    values[i] = static_cast<const void*>(&addresses[i]);
    accesses[tensors++] = {addresses[i], argument.bytes, argument.access};
  }
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
                            .arguments = {values, count},
                            .accesses = {accesses, tensors}});
}

}  // namespace gangway::cuda
