// Converts the answers of CUDA and its libraries to Status. For the module alone.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string_view>

#include "executor/devices/cuda/driver/status.h"

namespace gangway::cuda {

Status status_of(cudaError_t code, std::string_view label);
Status status_of(cublasStatus_t code, std::string_view label);
Status status_of(ncclResult_t code, std::string_view label);

}  // namespace gangway::cuda
