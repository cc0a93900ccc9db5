// The kernels that nvcc compiled from kernels/*.cu, by name, as cudaLaunchKernel() takes them.
#pragma once

#include <map>
#include <string>

namespace gangway::cuda {

std::map<std::string, const void*, std::less<>> own_kernels();

}  // namespace gangway::cuda
