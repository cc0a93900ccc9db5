#include "ir/types/dtype.h"

namespace gangway {
static_assert(size_of(DType::kF64) == 8 && to_string(DType::kF64) == "f64");
}  // namespace gangway
