// Plain names: names of owners and islands, which tables, files, metrics and addresses show
// unquoted.
//
// Threads: pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace gangway {

inline constexpr size_t kPlainNameBytesMax = 64;

// Whether `name` is 1 to kPlainNameBytesMax letters, digits, '-', '_' and '.'.
inline bool is_plain_name(std::string_view name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
  return plain && !name.empty() && name.size() <= kPlainNameBytesMax;
}

}  // namespace gangway
