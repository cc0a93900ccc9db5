// Any bytes either are refused with an Error or parse to hosts that print back to themselves.
#include "controller/service/state_dir.h"

#include <cstddef>
#include <cstdint>

#include "runtime/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gangway;
  std::vector<KeptHost> hosts;
  try {
    hosts = parse_hosts({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid && error.kind() != ErrorKind::kUnimplemented)
      __builtin_trap();
    return 0;
  }
  if (parse_hosts(print_hosts(hosts), "again") != hosts) __builtin_trap();
  return 0;
}
