#include "executor/devices/sim/unread_memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "runtime/base/units.h"

namespace gangway {

UnreadMemory::UnreadMemory(int64_t bytes) : bytes_(std::max<int64_t>(bytes, 1)) {
  void* memory = mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorKind::kOverloaded,
                cat("simulated memory: no ", format_bytes(static_cast<uint64_t>(bytes_)),
                    " of addresses are left"),
                {}, "give the simulated devices less memory");
  }
  data_ = static_cast<std::byte*>(memory);
}

UnreadMemory::~UnreadMemory() { munmap(data_, static_cast<size_t>(bytes_)); }

Result<std::byte*> UnreadMemory::allocate(int64_t bytes, const std::string& what) {
  if (bytes <= bytes_) return data_;
  return Error(ErrorKind::kOverloaded,
               cat(what, ": needs ", format_bytes(static_cast<uint64_t>(bytes)), ", of ",
                   format_bytes(static_cast<uint64_t>(bytes_))));
}

}  // namespace gangway
