// The kernels that Gangway comes with, as the compiler of the tests built them.
#pragma once

#include <vector>

#include "executor/devices/cuda/kernels/kernel_source.h"

namespace gangway::emulated {

std::vector<const cuda::HostKernelTable*> own_kernels();

}  // namespace gangway::emulated
