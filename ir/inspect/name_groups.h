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
  std::vector<size_t> members;  // Which of the names, ascending; at least one.
};

// Of up to `unfolded_max` names each stands alone. Of more, those with one first component are a
// group; where the next component makes at most four groups of it, none of one name, it is these.
// In the order of the groups' names.
std::vector<NameGroup> name_groups(const std::vector<std::string>& names, size_t unfolded_max);

}  // namespace gangway
