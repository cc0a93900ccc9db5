// Any bytes either are refused with an Error or parse to an index that prints back to itself.
#include "checkpoint/tensor_index.h"

#include <cstddef>

#include "runtime/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gangway;
  TensorIndex index;
  try {
    index = parse_tensor_index({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid) __builtin_trap();
    return 0;
  }
  std::string printed = print_tensor_index(index, "fuzz");
  if (!(parse_tensor_index(printed, "again") == index)) __builtin_trap();
  return 0;
}
