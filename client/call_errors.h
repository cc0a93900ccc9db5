// Wording of errors of a user's calls: the caller's line, and the names that there are.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/base/cat.h"
#include "runtime/base/error.h"
#include "runtime/base/loc.h"

namespace gangway::internal {

// Runs body. An error of it that names no line gets this one, which is the caller's.
template <class Body>
auto at_line(const Loc& loc, const Body& body) {
  try {
    return body();
  } catch (Error& error) {
    error.add_where({.at = to_string(loc)});
    throw;
  }
}

// "a, b, c and 4 more", or "none". name_of() gives an element's name.
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

// The same for the keys of a map.
template <class Map>
std::string names_in(const Map& map) {
  return listed(map, [](const auto& item) { return item.first; });
}

}  // namespace gangway::internal
