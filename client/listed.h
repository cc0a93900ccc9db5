// The names that there are, for an error about one that there is not.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/base/cat.h"

namespace gangway::internal {

// "a, b, c and 4 more"; "none". `name_of`: of an element.
template <class Elements, class NameOf>
std::string listed(const Elements& elements, const NameOf& name_of) {
  constexpr size_t kNamesMax = 32;
  std::string text;
  size_t count = 0;
  for (const auto& element : elements) {
    if (count++ < kNamesMax) text += cat(text.empty() ? "" : ", ", name_of(element));
  }
  if (count > kNamesMax) text += cat(" and ", count - kNamesMax, " more");
  return text.empty() ? "none" : text;
}

// Of a map by name.
template <class Map>
std::string names_in(const Map& map) {
  return listed(map, [](const auto& item) { return item.first; });
}

}  // namespace gangway::internal
