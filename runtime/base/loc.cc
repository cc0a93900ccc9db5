#include "runtime/base/loc.h"

#include <string_view>

namespace gangway {
namespace {
thread_local const Loc* scoped = nullptr;
}  // namespace

Loc Loc::current(const char* file, int line) {
  return scoped != nullptr ? *scoped : Loc{file, line};
}

LocScope::LocScope(Loc at) : at_(at), outer_(scoped) {
  if (at_.known()) scoped = &at_;
}
LocScope::~LocScope() { scoped = outer_; }

std::string to_string(const Loc& loc) {
  if (!loc.known()) return "unknown";
  std::string_view file = loc.file;
  if (auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return std::string(file) + ":" + std::to_string(loc.line);
}

}  // namespace gangway
