#include "ir/inspect/name_groups.h"

#include <algorithm>
#include <map>

namespace gangway {
namespace {

constexpr size_t kSplitMax = 4;

using Groups = std::map<std::string, std::vector<size_t>>;

// Groups the names by the component behind `prefix`.
Groups split(const std::vector<std::string>& names, const std::vector<size_t>& members,
             const std::string& prefix) {
  Groups groups;
  for (const size_t member : members) {
    const std::string& name = names[member];
    const size_t dot = name.find('.', prefix.size());
    groups[dot == std::string::npos ? name : name.substr(0, dot + 1)].push_back(member);
  }
  return groups;
}

void add_groups(const std::vector<std::string>& names, const std::vector<size_t>& members,
                const std::string& prefix, std::vector<NameGroup>& all) {
  for (const auto& [name, group] : split(names, members, prefix)) {
    if (group.size() == 1) {
      all.push_back({names[group[0]], group});
      continue;
    }
    const Groups inner = split(names, group, name);
    const bool is_split =
        inner.size() > 1 && inner.size() <= kSplitMax &&
        std::ranges::none_of(inner, [](const auto& one) { return one.second.size() == 1; });
    if (is_split) {
      add_groups(names, group, name, all);
    } else {
      all.push_back({name + "*", group});
    }
  }
}

}  // namespace

std::vector<NameGroup> name_groups(const std::vector<std::string>& names, size_t unfolded_max) {
  std::vector<NameGroup> all;
  if (names.size() <= unfolded_max) {
    for (size_t i = 0; i < names.size(); ++i) all.push_back({names[i], {i}});
    return all;
  }
  std::vector<size_t> members(names.size());
  for (size_t i = 0; i < names.size(); ++i) members[i] = i;
  add_groups(names, members, "", all);
  return all;
}

}  // namespace gangway
