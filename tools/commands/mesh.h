// Meshes on the command line: "data=256,model=4".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/types/mesh.h"

namespace gangway::tool {

// Of a mesh, and so of each of its axes.
inline constexpr int64_t kMeshDevicesMax = int64_t{1} << 20;

// The axes that --mesh says; none for an empty text. Errors: kInvalid.
std::vector<MeshAxis> parse_mesh(const std::string& text);

}  // namespace gangway::tool
