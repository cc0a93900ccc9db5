// For headers that the host and the kernels share: integers by name, and GW_BOTH before a function
// that both call.
#pragma once

#ifndef __CUDACC_RTC__
#include <cstdint>
#endif

#ifdef __CUDACC__
#define GW_BOTH __host__ __device__ constexpr
#else
#define GW_BOTH constexpr
#endif
