// cat(a, b, ...): joins the printed forms of its arguments. Rooms that link no third party format
// text with it.
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
