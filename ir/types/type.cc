#include "ir/types/type.h"

#include <charconv>

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

std::optional<Type> parse_type(std::string_view text) {
  size_t open = text.find('[');
  if (open == std::string_view::npos || text.back() != ']') return std::nullopt;
  auto dtype = parse_dtype(text.substr(0, open));
  if (!dtype) return std::nullopt;
  Type type{*dtype, {}};
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  while (!rest.empty()) {
    int64_t dim = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), dim);
    if (error != std::errc() || type.rank() == kRankMax) return std::nullopt;
    type.dims.push_back(dim);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (rest.empty()) break;
    if (rest.front() != ',' || rest.size() < 2) return std::nullopt;
    rest.remove_prefix(rest[1] == ' ' ? 2 : 1);
    if (rest.empty()) return std::nullopt;
  }
  if (!is_valid(type)) return std::nullopt;
  return type;
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
