// cat(a, b, ...): the printed forms of its arguments, joined. The formatting of rooms that link no
// third party.
#pragma once

#include <sstream>
#include <string>

namespace gangway {

template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace gangway
