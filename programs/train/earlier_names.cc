#include "programs/train/earlier_names.h"

namespace gangway::programs {
namespace {

struct Renamed {
  std::string_view now, then;  // Prefixes of the names.
};

// Moments were once named after a parameter's place in its tree, without the name of the tree.
constexpr Renamed kRenamed[] = {{"adamw.m.params.", "adamw.m."}, {"adamw.v.params.", "adamw.v."}};

}  // namespace

std::vector<std::string> earlier_names(std::string_view name) {
  std::vector<std::string> names;
  for (const Renamed& renamed : kRenamed) {
    if (name.starts_with(renamed.now))
      names.push_back(std::string(renamed.then) + std::string(name.substr(renamed.now.size())));
  }
  return names;
}

}  // namespace gangway::programs
