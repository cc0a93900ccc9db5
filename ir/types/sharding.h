// How a tensor is laid out over a mesh: one placement for each mesh axis.
//
// Invariants
//  - A sharding has exactly as many placements as the mesh has axes; position i speaks of axis i.
//  - shard(d) on an axis of size n cuts dimension d into n equal parts; d is in range and the part
//    is exact. Two axes may cut the same dimension: the earlier axis is the outer cut.
//  - partial(sum): every device along the axis holds a term; the tensor is their sum. Only results
//    inside a function are partial; parameters and results of a function never are.
//
// Changing a placement is a collective:
//
//   partial   -> replicate   all-reduce
//   partial   -> shard       reduce-scatter
//   shard     -> replicate   all-gather
//   shard(i)  -> shard(j)    all-to-all
//   replicate -> shard       a slice, without traffic
//
// Threads: a value; safe anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/types/mesh.h"
#include "ir/types/type.h"

namespace gangway {

enum class PlacementKind : uint8_t { kReplicate = 0, kShard = 1, kPartial = 2 };

struct Placement {
  PlacementKind kind = PlacementKind::kReplicate;
  int dim = 0;  // kShard only.
  friend bool operator==(const Placement&, const Placement&) = default;
};

inline Placement replicate() { return {}; }
inline Placement shard(int dim) { return {PlacementKind::kShard, dim}; }
inline Placement partial() { return {PlacementKind::kPartial, 0}; }

using Sharding = std::vector<Placement>;

// An annotation by axis name, as users write it: {{"data", shard(0)}}. Axes not named replicate.
using AxisPlacements = std::vector<std::pair<std::string, Placement>>;

Sharding replicated(const Mesh& mesh);

// Throws kInvalid when an axis is unknown or named twice.
Sharding resolve(const Mesh& mesh, const AxisPlacements& placements);

// The type of one device's part; nullopt when a cut is not exact or out of range.
std::optional<Type> local_type(const Type& type, const Mesh& mesh, const Sharding& sharding);

std::string to_string(const Placement& placement);  // "shard(0)", "replicate", "partial"
std::optional<Placement> parse_placement(std::string_view text);
std::string to_string(const Mesh& mesh, const Sharding& sharding);  // "{data: shard(0)}"

}  // namespace gangway
