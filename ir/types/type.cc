#include "ir/types/type.h"

namespace gangway {

int64_t Type::elements() const {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(dims[i]);
  }
  return text + "]";
}

std::string to_string(const Type& type) {
  return std::string(to_string(type.dtype)) + to_string(type.dims);
}

bool is_valid(const Type& type) {
  if (static_cast<int>(type.dtype) >= kDTypeCount || type.rank() > kRankMax) return false;
  int64_t count = 1;
  for (int64_t dim : type.dims) {
    if (dim < 0 || dim > kElementsMax) return false;
    if (dim == 0) continue;
    if (count > kElementsMax / dim) return false;
    count *= dim;
  }
  return true;
}

}  // namespace gangway
