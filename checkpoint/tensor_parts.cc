#include "checkpoint/tensor_parts.h"

#include <iterator>

namespace gangway {
namespace {

struct Parts {
  std::string_view tensor;  // The last components of its name.
  std::vector<std::string_view> parts;
};

const std::vector<Parts>& all_parts() {
  static const std::vector<Parts> all = {{"attn.qkv", {"attn.q", "attn.k", "attn.v"}}};
  return all;
}

bool ends_with_components(std::string_view name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  return name.size() == end.size() || name[name.size() - end.size() - 1] == '.';
}

}  // namespace

std::vector<std::string> names_of_parts(std::string_view name, const Dims& shape) {
  std::vector<std::string> names;
  for (const auto& [tensor, parts] : all_parts()) {
    if (!ends_with_components(name, tensor)) continue;
    if (shape.size() < 2 || shape[1] != std::ssize(parts)) continue;
    const std::string front(name.substr(0, name.size() - tensor.size()));
    for (const std::string_view part : parts) names.push_back(front + std::string(part));
  }
  return names;
}

}  // namespace gangway
