#include <algorithm>
#include <array>

#include "ir/transforms/conversions/steps/step.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway::conversions {

std::span<const StepKind* const> step_kinds() {
  static constexpr std::array<const StepKind*, 7> kKinds = {
      &kSlice, &kAllGather, &kAllToAll, &kPermute, &kReduceScatter, &kAllReduce, &kKeepFirst};
  return kKinds;
}

const StepKind& kind_of(Op op) {
  for (const StepKind* kind : step_kinds()) {
    if (kind->op == op) return *kind;
  }
  GW_ASSERT(false, to_string(op), " is not a step of a conversion");
}

bool Conversion::moves(int axis) const { return std::ranges::binary_search(moving, axis); }

int64_t Conversion::rows(const Layout& at, size_t dim) const {
  return part_rows(mesh, global.dims[dim], at.cuts[dim]);
}

std::span<const int> Conversion::innermost(const Layout& at, size_t dim, size_t count) const {
  return std::span(at.cuts[dim]).last(count);
}

int64_t Conversion::rows_cut_by(const Layout& at, size_t dim, size_t count) const {
  const std::span<const int> cuts = at.cuts[dim];
  return part_rows(mesh, global.dims[dim], cuts.first(cuts.size() - count));
}

Axes Conversion::moving_partial(const Layout& at) const {
  Axes found;
  std::ranges::copy_if(at.partial, std::back_inserter(found), [&](int a) { return moves(a); });
  return found;
}

Axes Conversion::moving_replicated(const Layout& at) const {
  Axes found;
  for (const int axis : moving) {
    bool used = std::ranges::count(at.partial, axis) > 0;
    for (const Axes& cuts : at.cuts) used = used || std::ranges::count(cuts, axis) > 0;
    if (!used) found.push_back(axis);
  }
  return found;
}

int64_t Conversion::local_bytes(const Layout& at) const {
  return global.with(local_dims(global, mesh, at)).bytes();
}

std::vector<Axes> subsets(const Conversion& conversion, const Axes& axes) {
  std::vector<Axes> out;
  if (!conversion.exhaustive) {
    for (const int axis : axes) out.push_back({axis});
    if (axes.size() > 1) out.push_back(axes);
    return out;
  }
  for (size_t mask = 1; mask < size_t{1} << axes.size(); ++mask) {
    Axes chosen;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (mask >> i & 1) chosen.push_back(axes[i]);
    }
    out.push_back(std::move(chosen));
  }
  return out;
}

std::vector<Axes> ordered_subsets(const Conversion& conversion, const Axes& axes) {
  std::vector<Axes> out;
  for (Axes chosen : subsets(conversion, axes)) {
    do {
      out.push_back(chosen);
    } while (conversion.exhaustive && std::ranges::next_permutation(chosen).found);
  }
  return out;
}

int64_t rows_of_others(int64_t rows, int64_t parts) {
  const int64_t part = ceil_div(rows, parts);
  // With fewer rows than parts the last one is empty.
  return rows < parts ? rows : rows - std::max(int64_t{0}, rows - part * (parts - 1));
}

int64_t row_bytes(const Conversion& conversion, const Layout& at, size_t dim) {
  Dims row = local_dims(conversion.global, conversion.mesh, at);
  row[dim] = 1;
  return conversion.global.with(std::move(row)).bytes();
}

std::string names_of(const Mesh& mesh, const Axes& axes) {
  std::string names;
  for (const int axis : axes)
    names += (names.empty() ? "" : ",") + mesh.axes[static_cast<size_t>(axis)].name;
  return names;
}

}  // namespace gangway::conversions
