#include "tools/commands/mesh.h"

#include <algorithm>
#include <charconv>

#include "runtime/base/error.h"

namespace gangway::tool {

int64_t number_in(const std::string& text, const std::string& of) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  GW_REQUIRE(error == std::errc() && end == text.data() + text.size() && value >= 0, of,
             ": expected a number, got \"", text, "\"");
  return value;
}

std::vector<MeshAxis> parse_mesh(const std::string& text) {
  std::vector<MeshAxis> axes;
  if (text.empty()) return axes;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    const size_t equals = part.find('=');
    GW_REQUIRE(equals != std::string::npos && equals > 0,
               "--mesh: expected AXIS=SIZE,AXIS=SIZE, got \"", text, "\"");
    const int64_t size = number_in(part.substr(equals + 1), "--mesh");
    GW_REQUIRE(size >= 1, "--mesh: axis \"", part.substr(0, equals), "\": expected at least 1");
    axes.push_back({part.substr(0, equals), size});
    at = comma + 1;
  }
  return axes;
}

}  // namespace gangway::tool
