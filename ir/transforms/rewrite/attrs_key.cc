#include "ir/transforms/rewrite/attrs_key.h"

#include <type_traits>
#include <variant>

#include "runtime/base/cat.h"

namespace gangway {

std::string attrs_key(const Attrs& attrs) {
  std::string key;
  for (const auto& [name, value] : attrs) {
    key += cat(name, "=", value.index(), ":");
    std::visit(
        [&key](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::string>) {
            key += cat(v.size(), ":", v);  // It may hold anything.
          } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
            for (int64_t i : v) key += std::to_string(i) + ",";
          } else {
            const char* bytes = reinterpret_cast<const char*>(&v);
            key.append(bytes, sizeof(v));
          }
        },
        value);
    key += ";";
  }
  return key;
}

}  // namespace gangway
