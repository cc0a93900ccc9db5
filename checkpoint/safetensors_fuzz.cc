// Any bytes either are refused with an Error or parse to a header that prints back to itself.
#include <cstddef>
#include <cstdint>
#include <string>

#include "checkpoint/safetensors.h"
#include "runtime/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gangway;
  std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  SafetensorsHeader header;
  try {
    header = parse_header(bytes, bytes.size(), "fuzz");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid) __builtin_trap();
    return 0;
  }
  const std::string again = print_header(header, "fuzz");
  if (!(parse_header(std::as_bytes(std::span(again)), again.size() + header.data_bytes(),
                     "again") == header))
    __builtin_trap();
  return 0;
}
