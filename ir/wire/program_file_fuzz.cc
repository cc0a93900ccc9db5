// Any bytes of a file are a program or an error; a program's file gives the same program.
#include "ir/wire/program_file.h"

#include <cstdint>
#include <cstdlib>

#include "runtime/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    gangway::Program program = gangway::program_from_file_bytes(bytes, "fuzz");
    auto again = gangway::program_from_file_bytes(gangway::to_file_bytes(program), "fuzz");
    if (!same_graph(again, program)) std::abort();
  } catch (const gangway::Error& error) {
    if (error.kind() == gangway::ErrorKind::kBug) std::abort();
  }
  return 0;
}
