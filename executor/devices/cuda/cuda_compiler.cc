#include "executor/devices/cuda/cuda_compiler.h"

#include "executor/devices/cuda/cuda_function.h"
#include "executor/devices/cuda/cuda_stream.h"

namespace gangway {

std::shared_ptr<const CompiledFunction> CudaCompiler::compile(const LocalFunction& local) {
  return std::make_shared<const CudaFunction>(local, gpu_);
}

void CudaCompiler::trim() { stream_.trim_graphs(); }

}  // namespace gangway
