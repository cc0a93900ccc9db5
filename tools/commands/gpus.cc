#include "tools/commands/gpus.h"

#include "executor/devices/cuda/loader.h"
#include "runtime/base/error.h"

namespace gangway::tool {

void offer_gpus(HostOptions& host) {
  const cuda::FoundGpus found = cuda::find_gpus();
  if (found.gpus.empty()) {
    throw Error(ErrorKind::kUnavailable, cat("executor: no CUDA devices: ", found.why_none), {},
                "use --device cpu");
  }
  host.kind = DeviceKind::kCuda;
  if (host.devices == 0) host.devices = static_cast<int>(found.gpus.size());
}

}  // namespace gangway::tool
