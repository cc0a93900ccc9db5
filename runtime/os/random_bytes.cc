#include "runtime/os/random_bytes.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/error.h"

namespace gangway {

void fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw Error(ErrorKind::kUnavailable, cat("the system has no randomness: ", strerror(errno)));
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

}  // namespace gangway
