// The rooms of the tree, and the rooms that each may include: the walls that docs/architecture.md
// draws.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace gangway::tidy {

// A folder, with those under it that are no rooms of their own: the most specific one counts.
struct Room {
  std::string_view folder;
  std::vector<std::string_view> may_include;  // Itself is understood; "*" is everything.

  bool may(std::string_view other) const;
};

// Lowest first: a room includes only rooms that stand before it, so there are no cycles.
std::span<const Room> rooms();

// The room that the path is in. Null if it is in none.
const Room* room_of(std::string_view path);

// True if a test in `from` may include `to`. It may include all of its own top-level folder, and
// all of each top-level folder of which the rooms of its own may include something.
bool test_may_include(const Room& from, const Room& to);

}  // namespace gangway::tidy
