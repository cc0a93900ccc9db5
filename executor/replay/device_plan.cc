#include "executor/replay/device_plan.h"

namespace gangway {

// Arrays of clients may keep buffers of the pools; the pools free them when they return.
ShareMemory::~ShareMemory() {
  for (const auto* pools : {&input_pools, &output_pools}) {
    for (const std::shared_ptr<BufferPool>& pool : *pools) {
      if (pool != nullptr) pool->close();
    }
  }
}

}  // namespace gangway
