// Any bytes either are refused with an Error or parse to a header that prints back to itself.
#include <cstddef>
#include <cstdint>
#include <string>

#include "checkpoint/safetensors.h"
#include "runtime/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gangway;
  std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  ParsedSafetensors parsed;
  try {
    parsed = parse_safetensors(bytes, "fuzz");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid) __builtin_trap();
    return 0;
  }
  std::string again = print_header(parsed.header, "fuzz");
  again.append(reinterpret_cast<const char*>(parsed.data.data()), parsed.data.size());
  ParsedSafetensors reparsed = parse_safetensors(std::as_bytes(std::span(again)), "again");
  if (!(reparsed.header == parsed.header)) __builtin_trap();
  return 0;
}
