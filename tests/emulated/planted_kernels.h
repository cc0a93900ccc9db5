// Kernels that are wrong on purpose: the emulated driver must report each mistake.
#pragma once

#include "executor/devices/cuda/kernels/kernel_source.h"

extern "C" const gangway::cuda::HostKernelTable gangway_kernels_planted;
