// How a tensor is laid out over a mesh: one placement for each mesh axis.
//
// Invariants
//  - A sharding has exactly as many placements as the mesh has axes; position i speaks of axis i.
//  - shard(d) on an axis of size n cuts dimension d into n parts. Several axes may cut the same
//    dimension: the one of lower order is the outer cut, and of equal orders the earlier axis. With
//    order 0 everywhere the order is that of the mesh.
//  - A part is ceil-sized: k axes cut a dimension of size p0 into parts of p_i = ceil(p_(i-1) /
//    size_i), outer first. Rows of a part beyond its share are padding, and always zero.
//  - partial: every device along the axis holds a term; the tensor is their sum (or maximum, or
//    minimum). Only results inside a function are partial; parameters and results of a function
//    never are.
//  - A layout has one canonical spelling (canonical()): compare shardings in that form.
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
#include <utility>
#include <vector>

#include "ir/types/mesh.h"
#include "ir/types/reduction.h"
#include "ir/types/type.h"

namespace gangway {

enum class PlacementKind : uint8_t { kReplicate = 0, kShard = 1, kPartial = 2 };

struct Placement {
  PlacementKind kind = PlacementKind::kReplicate;
  int dim = 0;                            // kShard only.
  int order = 0;                          // kShard only: lower is the outer cut.
  Reduction reduction = Reduction::kSum;  // kPartial only.
  friend bool operator==(const Placement&, const Placement&) = default;
};

inline Placement replicate() { return {}; }
inline Placement shard(int dim, int order = 0) {
  return {.kind = PlacementKind::kShard, .dim = dim, .order = order};
}
inline Placement partial(Reduction reduction = Reduction::kSum) {
  return {.kind = PlacementKind::kPartial, .reduction = reduction};
}
inline bool is_partial(const Placement& placement) {
  return placement.kind == PlacementKind::kPartial;
}

using Sharding = std::vector<Placement>;

// An annotation by axis name, as users write it: {{"data", shard(0)}}. Axes not named replicate.
using AxisPlacements = std::vector<std::pair<std::string, Placement>>;

Sharding replicated(const Mesh& mesh);

// Throws kInvalid when an axis is unknown or named twice.
Sharding resolve(const Mesh& mesh, const AxisPlacements& placements);

// The axes that cut `dim`, outer cut first: by order, then by position in the mesh.
std::vector<int> cut_axes(const Sharding& sharding, int dim);

// The one spelling of a layout: axes of size 1 replicate; the axes that cut a dimension have order
// 0 if the mesh's order already gives their nesting, else 0, 1 ... k - 1. Layouts that place the
// same rows but cut them by different axes (4 parts over one axis, or over two) stay different.
Sharding canonical(const Mesh& mesh, Sharding sharding);

// The type of one device's part, padding included; nullopt when a placement is out of range.
std::optional<Type> local_type(const Type& type, const Mesh& mesh, const Sharding& sharding);

// Whether there is a local type and no part has padding.
bool cuts_evenly(const Type& type, const Mesh& mesh, const Sharding& sharding);

// "replicate", "shard(0)", "shard(0)@1" (of order 1), "partial", "partial(max)"
std::string to_string(const Placement& placement);
std::optional<Placement> parse_placement(std::string_view text);
std::string to_string(const Mesh& mesh, const Sharding& sharding);  // "{data: shard(0)}"

// "data: shard(0), model: replicate", as an attribute stores it; names that are not plain words are
// in quotes.
std::string to_string(const AxisPlacements& placements);
std::optional<AxisPlacements> parse_axis_placements(std::string_view text);

}  // namespace gangway
