// The functions of cuDNN that the module uses, looked up in the library at the first use.
//
// Why not linked: cuDNN is half a gigabyte that a machine may lack, and only fused attention needs
// it. The module loads without it.
//
// Invariants: the library is never closed.
// Threads: a value; its functions as cuDNN says.
// Errors: values.
#pragma once

#include <cudnn_graph.h>

#include <memory>
#include <string_view>

#include "executor/devices/cuda/driver/status.h"
#include "runtime/base/result.h"

namespace gangway::cuda {

struct Cudnn {
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnGetErrorString) name_of = nullptr;
  decltype(&cudnnGetLastErrorString) last_error = nullptr;
  decltype(&cudnnCreate) create_handle = nullptr;
  decltype(&cudnnDestroy) destroy_handle = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy = nullptr;
  decltype(&cudnnBackendSetAttribute) set = nullptr;
  decltype(&cudnnBackendGetAttribute) get = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;

  Status status_of(cudnnStatus_t code, std::string_view label) const;
};

// kUnimplemented, naming the library, where there is none or one that is too old.
Result<Cudnn> load_cudnn();

// One of cuDNN's objects. Empty where it could not be created.
using CudnnDescriptor = std::unique_ptr<void, decltype(&cudnnBackendDestroyDescriptor)>;

}  // namespace gangway::cuda
