// Given any bytes as memory, find_area() either throws or returns an offset inside its bounds.
#include <cstdint>
#include <cstring>
#include <vector>

#include "executor/links/area_list.h"
#include "runtime/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gangway;
  // The memory under test: two areas as a host writes them, overwritten from the begin with the
  // input.
  AreaList areas;
  areas.add("flag", 8);
  areas.add("inbox", 100);
  std::vector<std::byte> memory(static_cast<size_t>(areas.bytes()));
  areas.write(memory.data());
  if (size > 0) std::memcpy(memory.data(), data, size < memory.size() ? size : memory.size());
  for (const char* name : {"flag", "inbox", "other"}) {
    try {
      const uint64_t at = find_area(memory, name, 8);
      if (at > memory.size() || memory.size() - at < 8 || at % 64 != 0) __builtin_trap();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnavailable) __builtin_trap();
    }
  }
  return 0;
}
