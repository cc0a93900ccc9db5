// Layout: a sharding seen from the tensor: which axes cut each dimension, and which are partial.
// The vertices of the graph in which a ConversionPlanner looks for a path.
//
// Invariants
//  - Every mesh axis is in at most one list; one that is in none replicates. Axes of size 1 are in
//    none.
//  - All partial axes have one reduction, which is kSum where there are none.
//  - Equal layouts are equal shardings: it has one spelling.
//
// Parts are nested: of a dimension of n rows the outermost axis gets parts of ceil(n / size), and
// each next axis cuts such a part, padding included, in the same way. Some axes of a dimension that
// follow one another are *flat* where that is the same as one cut by the product of their sizes.
// Only flat axes can be gathered, cut or re-ordered in one step.
//
// Threads: values and pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/types/mesh.h"
#include "ir/types/sharding.h"
#include "ir/types/type.h"

namespace gangway::conversions {

using Axes = std::vector<int>;  // Positions in the mesh.

struct Layout {
  std::vector<Axes> cuts;  // Indexed by dimension; the outer cut first.
  Axes partial;            // Ascending.
  Reduction reduction = Reduction::kSum;
  friend auto operator<=>(const Layout&, const Layout&) = default;
};

// kInvalid when the sharding does not fit the type or the mesh, or mixes two reductions.
Layout layout_of(const Type& type, const Mesh& mesh, const Sharding& sharding);
Sharding sharding_of(const Mesh& mesh, const Layout& layout);

// A product that says "as much as there is" where it would overflow: types and meshes come from
// outside.
int64_t bounded_product(int64_t a, int64_t b);
int64_t size_of_axes(const Mesh& mesh, std::span<const int> axes);  // The product.
// The rows of one part of `rows` cut by `axes`.
int64_t part_rows(const Mesh& mesh, int64_t rows, std::span<const int> axes);
// Whether part m of `rows`, counted row-major over `axes`, begins at row m * part_rows().
bool is_flat(const Mesh& mesh, int64_t rows, std::span<const int> axes);
// Whether two lists of axes cut `rows` alike: part m of one is part m of the other.
bool cut_alike(const Mesh& mesh, int64_t rows, std::span<const int> a, std::span<const int> b);

// Sizes of one device's part.
Dims local_dims(const Type& type, const Mesh& mesh, const Layout& layout);

}  // namespace gangway::conversions
