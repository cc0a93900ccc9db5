// Any bytes either are refused with an Error or parse to hashes that print back to themselves.
#include "checkpoint/file_hashes.h"

#include <cstddef>
#include <cstdint>

#include "runtime/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gangway;
  FileHashes hashes;
  try {
    hashes = parse_file_hashes({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid) __builtin_trap();
    return 0;
  }
  if (parse_file_hashes(print_file_hashes(hashes), "again") != hashes) __builtin_trap();
  return 0;
}
