// Another size for one axis of a slice's mesh: the same program for fewer devices, or for more.
//
// What a program means does not depend on its meshes: types are global, and shardings name axes. So
// nothing of it changes but the meshes of the slice and of the functions that are called on it.
//
// Threads: pure.
// Errors: kInvalid when the slice has no such axis, or when what results is no valid program.
// Cost: O(nodes).
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/graph/program.h"

namespace gangway {

Program with_axis_size(const Program& program, uint32_t slice, std::string_view axis, int64_t size);

}  // namespace gangway
