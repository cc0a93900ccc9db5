// Kernels that are wrong on purpose: what the emulated driver must catch.
#pragma once

#include "executor/devices/cuda/kernels/kernel_source.h"

extern "C" const gangway::cuda::HostKernelTable gangway_kernels_planted;
