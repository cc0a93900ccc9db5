#include "ir/transforms/conversions/layout.h"

#include <algorithm>

#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway::conversions {

Layout layout_of(const Type& type, const Mesh& mesh, const Sharding& sharding) {
  GW_REQUIRE(local_type(type, mesh, sharding).has_value(), "conversion: ", to_string(type),
             " can't be placed as ", to_string(mesh, sharding), " over ", to_string(mesh));
  const Sharding one_spelling = canonical(mesh, sharding);
  Layout layout{.cuts = {}, .partial = {}, .reduction = Reduction::kSum};
  for (int dim = 0; dim < type.rank(); ++dim) layout.cuts.push_back(cut_axes(one_spelling, dim));
  for (size_t axis = 0; axis < one_spelling.size(); ++axis) {
    const Placement& placement = one_spelling[axis];
    if (placement.kind != PlacementKind::kPartial) continue;
    GW_REQUIRE(layout.partial.empty() || layout.reduction == placement.reduction,
               "conversion: two reductions in one sharding: got ", to_string(mesh, sharding),
               ": their order would decide what the value is");
    layout.partial.push_back(static_cast<int>(axis));
    layout.reduction = placement.reduction;
  }
  return layout;
}

Sharding sharding_of(const Mesh& mesh, const Layout& layout) {
  Sharding sharding = replicated(mesh);
  for (size_t dim = 0; dim < layout.cuts.size(); ++dim) {
    for (size_t i = 0; i < layout.cuts[dim].size(); ++i) {
      sharding[static_cast<size_t>(layout.cuts[dim][i])] =
          shard(static_cast<int>(dim), static_cast<int>(i));
    }
  }
  for (const int axis : layout.partial)
    sharding[static_cast<size_t>(axis)] = partial(layout.reduction);
  return canonical(mesh, std::move(sharding));
}

int64_t bounded_product(int64_t a, int64_t b) {
  constexpr int64_t kMost = INT64_MAX / 64;  // Some of them can be added up.
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return kMost;
  return std::min(product, kMost);
}

int64_t size_of_axes(const Mesh& mesh, std::span<const int> axes) {
  int64_t product = 1;
  for (const int axis : axes) product *= mesh.axes[static_cast<size_t>(axis)].size;
  return product;
}

int64_t part_rows(const Mesh& mesh, int64_t rows, std::span<const int> axes) {
  for (const int axis : axes) rows = ceil_div(rows, mesh.axes[static_cast<size_t>(axis)].size);
  return rows;
}

bool is_flat(const Mesh& mesh, int64_t rows, std::span<const int> axes) {
  if (rows <= 1) return true;  // All of it is in part 0.
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t size = mesh.axes[static_cast<size_t>(axes[i])].size;
    if (i > 0 && rows % size != 0) return false;
    rows = ceil_div(rows, size);
  }
  return true;
}

bool cut_alike(const Mesh& mesh, int64_t rows, std::span<const int> a, std::span<const int> b) {
  // Both are walked to the next place where they have cut in equally many parts.
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const size_t a_begin = i, b_begin = j;
    int64_t a_parts = 1, b_parts = 1;
    do {
      const bool next_of_a = a_parts <= b_parts;
      if (next_of_a ? i == a.size() : j == b.size()) return false;
      const int axis = next_of_a ? a[i++] : b[j++];
      (next_of_a ? a_parts : b_parts) *= mesh.axes[static_cast<size_t>(axis)].size;
    } while (a_parts != b_parts);
    const auto of_a = a.subspan(a_begin, i - a_begin), of_b = b.subspan(b_begin, j - b_begin);
    if (of_a.size() > 1 || of_b.size() > 1) {
      if (!is_flat(mesh, rows, of_a) || !is_flat(mesh, rows, of_b)) return false;
    }
    rows = part_rows(mesh, rows, of_a);
  }
  return true;
}

Dims local_dims(const Type& type, const Mesh& mesh, const Layout& layout) {
  Dims dims = type.dims;
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = part_rows(mesh, dims[d], layout.cuts[d]);
  return dims;
}

}  // namespace gangway::conversions
