// The kernels that nvcc compiled from kernels/*.cu, by name. The values are those that
// cudaLaunchKernel() takes.
#pragma once

#include <map>
#include <string>

namespace gangway::cuda {

std::map<std::string, const void*, std::less<>> own_kernels();

}  // namespace gangway::cuda
