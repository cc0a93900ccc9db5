// Finds and loads the CUDA module. If there is no GPU, the error says plainly why.
//
// Path: $GANGWAY_CUDA_MODULE, else lib/gangway/libgangway_cuda.so next to the program or up to
// three folders above it (a build folder, an installation). Without a driver it is not even opened:
// NVIDIA's libraries take 200 MB and a moment.
//
// Threads: any.
// Ownership: a loaded module stays for the life of the process.
// Cost: 50 ms.
#pragma once

#include "executor/devices/cuda/driver/module_api.h"

namespace gangway::cuda {

// Never throws.
FoundGpus find_gpus();

// Throws kUnavailable with the reason where there is no such GPU.
std::shared_ptr<Driver> open_gpu(const OpenOptions& options);

}  // namespace gangway::cuda
