#include "tools/commands/gpus.h"

#include <algorithm>
#include <optional>
#include <string>

#include "executor/devices/cuda/driver/loader.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"

namespace gangway::tool {
namespace {

// Folder in which compiled sources are kept; empty: none.
std::string kernel_folder() {
  if (const auto cache = environment_value("XDG_CACHE_HOME")) return *cache + "/gangway/kernels";
  const std::optional<std::string> home = environment_value("HOME");
  return home ? *home + "/.cache/gangway/kernels" : "";
}

}  // namespace

void offer_gpus(HostOptions& host) {
  const cuda::FoundGpus found = cuda::find_gpus();
  if (found.gpus.empty()) {
    throw Error(ErrorKind::kUnavailable, cat("executor: no CUDA devices: ", found.why_none), {},
                "use --device cpu");
  }
  host.kind = DeviceKind::kCuda;
  if (host.devices == 0) host.devices = static_cast<int>(found.gpus.size());
  const size_t cards = std::min(found.gpus.size(), static_cast<size_t>(host.devices));
  for (uint32_t index = 0; index < cards; ++index)
    host.gpus.push_back(cuda::open_gpu({.index = index, .kernel_folder = kernel_folder()}));
}

}  // namespace gangway::tool
