#include "tests/cuda_module/real_card.h"

#include <cstdlib>

#include "executor/devices/cuda/driver/loader.h"
#include "runtime/base/cat.h"

namespace gangway {

CardMaker real_card(int64_t memory_bytes) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const cuda::OpenOptions options{
      .memory_bytes = memory_bytes,
      .kernel_folder = cache == nullptr ? std::string() : cat(cache, "/gangway/kernels")};
  return {"card", [] { return cuda::find_gpus().why_none; },
          [options] { return Card{cuda::open_gpu(options), [] { return std::string(); }}; }};
}

}  // namespace gangway
