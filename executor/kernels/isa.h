// Which instruction set the kernels use, chosen at run time.
//
// Nothing is compiled for the building machine: bodies that profit from wide vectors are compiled
// three times (simd/simd_{base,avx2,avx512}.cc) and reached through one table of functions
// (simd/simd.h). GANGWAY_ISA=base|avx2|avx512 lowers the choice, never raises it.
// Threads: any.
#pragma once

#include <cstdint>

namespace gangway {

enum class KernelIsa : uint8_t { kBase = 0, kAvx2 = 1, kAvx512 = 2 };

const char* to_string(KernelIsa isa);

// The best that this machine offers, whatever the environment says.
KernelIsa machine_isa();

// machine_isa(), lowered by GANGWAY_ISA. Read once.
KernelIsa detect_isa();

// Whether bf16 products run in bf16 arithmetic; else callers widen to f32.
bool has_native_bf16(KernelIsa isa);

}  // namespace gangway
