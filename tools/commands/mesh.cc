#include "tools/commands/mesh.h"

#include <algorithm>

#include "runtime/base/cut.h"
#include "runtime/base/error.h"
#include "tools/io/number.h"

namespace gangway::tool {

std::vector<MeshAxis> parse_mesh(const std::string& text) {
  constexpr size_t kTextBytesShown = 80;
  std::vector<MeshAxis> axes;
  int64_t devices = 1;
  if (text.empty()) return axes;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    const size_t equals = part.find('=');
    GW_REQUIRE(equals != std::string::npos && equals > 0,
               "--mesh: expected AXIS=SIZE,AXIS=SIZE, got \"", cut(text, kTextBytesShown), "\"");
    const std::string name = part.substr(0, equals);
    const int64_t size =
        number_in(part.substr(equals + 1), cat("--mesh: axis \"", cut(name, kTextBytesShown), "\""),
                  1, kMeshDevicesMax);
    devices *= size;  // Two factors of at most the bound are far from what the type can't hold.
    GW_REQUIRE(devices <= kMeshDevicesMax, "--mesh: expected at most ", kMeshDevicesMax,
               " devices in all, got more: ", cut(text, kTextBytesShown));
    axes.push_back({name, size});
    at = comma + 1;
  }
  return axes;
}

}  // namespace gangway::tool
