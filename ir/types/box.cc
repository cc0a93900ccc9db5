#include "ir/types/box.h"

#include <algorithm>

#include "runtime/base/cat.h"

namespace gangway {

Box whole_box(const Dims& dims) { return {Dims(dims.size(), 0), dims}; }

bool lies_in(const Box& box, const Dims& dims) {
  if (box.begin.size() != dims.size() || box.size.size() != dims.size()) return false;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (box.begin[d] < 0 || box.size[d] < 0 || box.begin[d] > dims[d] ||
        box.size[d] > dims[d] - box.begin[d])
      return false;
  }
  return true;
}

std::string to_string(const Box& box) {
  std::string text;
  for (size_t d = 0; d < std::min(box.begin.size(), box.size.size()); ++d)
    text += cat(d == 0 ? "" : ", ", box.begin[d], ":", box.begin[d] + box.size[d]);
  return cat("[", text, "]");
}

std::vector<Box> pieces_of(const Type& type, int64_t bytes_max) {
  const Dims& dims = type.dims;
  if (dims.empty() || type.elements() == 0 || type.bytes() <= bytes_max) return {whole_box(dims)};
  // Dimension `cut` is the outermost of which some rows fit; a piece has one row of all outside.
  size_t cut = dims.size() - 1;
  auto row_bytes = static_cast<int64_t>(size_of(type.dtype));
  for (; cut > 0 && row_bytes * dims[cut] <= bytes_max; --cut) row_bytes *= dims[cut];
  const int64_t rows = std::max<int64_t>(1, bytes_max / row_bytes);
  std::vector<Box> pieces;
  Box next = whole_box(dims);
  for (size_t d = 0; d < cut; ++d) next.size[d] = 1;
  while (next.begin[0] < dims[0]) {
    next.size[cut] = std::min(rows, dims[cut] - next.begin[cut]);
    pieces.push_back(next);
    next.begin[cut] += next.size[cut];
    for (size_t d = cut; d > 0 && next.begin[d] == dims[d]; --d) {
      next.begin[d] = 0;
      ++next.begin[d - 1];
    }
  }
  return pieces;
}

}  // namespace gangway
