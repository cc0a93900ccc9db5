#include "runtime/base/loc.h"

#include <string_view>

namespace gangway {

std::string to_string(const Loc& loc) {
  if (!loc.known()) return "unknown";
  std::string_view file = loc.file;
  if (auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return std::string(file) + ":" + std::to_string(loc.line);
}

}  // namespace gangway
