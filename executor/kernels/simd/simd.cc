#include "executor/kernels/simd/simd.h"

namespace gangway::simd {

const Table& table(KernelIsa isa) {
  const Table* const tables[] = {&kTableBase, &kTableAvx2, &kTableAvx512};
  return *tables[static_cast<int>(isa)];
}

}  // namespace gangway::simd
