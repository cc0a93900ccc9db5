// Any bytes are a plan or an error; a plan travels to bytes that give the same plan.
#include "ir/plan/plan_wire.h"

#include <cstdint>

#include "ir/plan/plan_check.h"
#include "runtime/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gangway;
  std::vector<std::byte> bytes;
  try {
    const Plan plan = plan_from_wire({reinterpret_cast<const std::byte*>(data), size});
    require_valid(plan);
    bytes = to_wire(plan);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid) __builtin_trap();
    return 0;
  }
  if (to_wire(plan_from_wire(bytes)) != bytes) __builtin_trap();
  return 0;
}
