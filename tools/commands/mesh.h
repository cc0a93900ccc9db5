// Meshes on the command line: "data=256,model=4".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/types/mesh.h"

namespace gangway::tool {

// A number that is not negative; `of` is what an error names.
int64_t number_in(const std::string& text, const std::string& of);

// The axes that --mesh says; none for an empty text.
std::vector<MeshAxis> parse_mesh(const std::string& text);

}  // namespace gangway::tool
