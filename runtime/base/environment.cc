#include "runtime/base/environment.h"

#include <cstdlib>

namespace gangway {

std::optional<std::string> environment_value(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace gangway
