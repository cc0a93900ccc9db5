// Meshes on the command line: "data=256,model=4".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/types/mesh.h"

namespace gangway::tool {

// Limit for the devices of a mesh, and thus for each of its axes.
inline constexpr int64_t kMeshDevicesMax = int64_t{1} << 20;

// Returns the axes that --mesh names; none for an empty text. Errors: kInvalid.
std::vector<MeshAxis> parse_mesh(const std::string& text);

}  // namespace gangway::tool
