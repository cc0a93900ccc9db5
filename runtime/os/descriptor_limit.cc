#include "runtime/os/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace gangway {

DescriptorLimit descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return {.soft = limit.rlim_cur, .hard = limit.rlim_max};
}

DescriptorLimit raise_descriptor_limit() {
  const DescriptorLimit now = descriptor_limit();
  const rlimit wanted{.rlim_cur = std::max(now.soft, std::min(now.hard, kDescriptorsMax)),
                      .rlim_max = now.hard};
  setrlimit(RLIMIT_NOFILE, &wanted);  // If refused, the limit stays as it is.
  return descriptor_limit();
}

}  // namespace gangway
