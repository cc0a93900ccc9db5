// Names of many values folded by their components, for views that would be too large with each of
// them: "params.*" for "params.embed", "params.pos" and ten more.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gangway {

struct NameGroup {
  std::string name;             // "params.*", or the one name of a group of one.
  std::vector<size_t> members;  // Indices of the names, ascending; at least one.
};

// Up to `unfolded_max` names stand alone, each in a group of its own. If there are more, names with
// the same first component form a group; if their next component divides them into at most four
// groups, none of one name, these replace the group, and may be replaced in turn. In the order of
// the groups' names.
std::vector<NameGroup> name_groups(const std::vector<std::string>& names, size_t unfolded_max);

}  // namespace gangway
