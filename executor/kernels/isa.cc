#include "executor/kernels/isa.h"

#include <algorithm>
#include <optional>
#include <string>

#include "runtime/base/environment.h"

namespace gangway {

const char* to_string(KernelIsa isa) {
  constexpr const char* kNames[] = {"base", "avx2", "avx512"};
  return kNames[static_cast<int>(isa)];
}

KernelIsa machine_isa() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return KernelIsa::kAvx512;
  }
  // Every processor with AVX2 also has F16C; only FMA is a flag of its own.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return KernelIsa::kAvx2;
  return KernelIsa::kBase;
}

KernelIsa detect_isa() {
  static const KernelIsa chosen = [] {
    const std::optional<std::string> wish = environment_value("GANGWAY_ISA");
    for (KernelIsa isa : {KernelIsa::kBase, KernelIsa::kAvx2}) {
      if (wish == to_string(isa)) return std::min(isa, machine_isa());
    }
    return machine_isa();
  }();
  return chosen;
}

bool has_native_bf16(KernelIsa isa) {
  return isa == KernelIsa::kAvx512 && __builtin_cpu_supports("avx512bf16");
}

}  // namespace gangway
