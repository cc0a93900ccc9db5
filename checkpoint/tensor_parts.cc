#include "checkpoint/tensor_parts.h"

#include <iterator>

namespace gangway {
namespace {

constexpr const char* kGroup = "attn.";

bool ends_with_components(std::string_view name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  return name.size() == end.size() || name[name.size() - end.size() - 1] == '.';
}

}  // namespace

const PackedTensor& packed_projections() {
  static const PackedTensor packed{"qkv", {"q", "k", "v"}};
  return packed;
}

std::vector<std::string> names_of_parts(std::string_view name, const Dims& shape) {
  const PackedTensor& packed = packed_projections();
  if (!ends_with_components(name, kGroup + packed.name)) return {};
  if (shape.size() < 2 || shape[1] != std::ssize(packed.parts)) return {};
  const std::string front(name.substr(0, name.size() - packed.name.size()));
  std::vector<std::string> names;
  for (const std::string& part : packed.parts) names.push_back(front + part);
  return names;
}

}  // namespace gangway
