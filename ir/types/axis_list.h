// A list of mesh axes, as the ops of local functions name those along which devices meet:
// "data,model".
//
// The devices that meet agree on their coordinates along all other axes. They are *members*,
// numbered in row-major order over the list, its first axis the slowest: so the list's order, and
// not the mesh's, says which member is which.
// Threads: pure functions.
// Errors: kInvalid for an axis that the mesh lacks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/types/mesh.h"

namespace gangway {

// "data,model" -> {"data", "model"}.
std::vector<std::string_view> split_axes(std::string_view axes);
// Why a list that may come from any file is malformed: it is empty, or it has an empty name or the
// same axis twice. The text continues the name of an attribute: "is empty: expected ...".
std::optional<std::string> axes_mistake(std::string_view axes);

// The positions of the axes in the mesh.
std::vector<int> axes_of(const Mesh& mesh, std::string_view axes);
// Number of devices that meet along the axes.
int64_t members_along(const Mesh& mesh, const std::vector<int>& axes);
// The device's number among the members that meet along the axes.
int64_t member_along(const Mesh& mesh, const std::vector<int>& axes, int64_t device);
// The devices that meet along the axes, by member: one vector for each group, by its first device.
std::vector<std::vector<int64_t>> members_of_groups(const Mesh& mesh, const std::vector<int>& axes);
// The number among these groups of the one that a device is in; and its devices, by member.
// Cost: O(axes), and O(axes + members), however many devices the mesh has.
int64_t group_along(const Mesh& mesh, const std::vector<int>& axes, int64_t device);
std::vector<int64_t> members_with(const Mesh& mesh, const std::vector<int>& axes, int64_t device);

}  // namespace gangway
