// shard -> replicate: the members' parts in order, without the rows behind the end. Only the
// innermost axes of a dimension can be gathered, since the parts of an outer one are not one behind
// the other; several at once where their cuts are flat.
#include <algorithm>

#include "ir/transforms/conversions/steps/step.h"

namespace gangway::conversions {
namespace {

void offer_gather(const Conversion& conversion, const Layout& at, std::vector<Step>& out) {
  for (size_t dim = 0; dim < at.cuts.size(); ++dim) {
    for (size_t count = 1; count <= conversion.movable(at, dim); ++count) {
      const std::span<const int> axes = conversion.innermost(at, dim, count);
      if (!is_flat(conversion.mesh, conversion.rows_cut_by(at, dim, count), axes)) continue;
      Layout after = at;
      after.cuts[dim].resize(at.cuts[dim].size() - count);
      out.push_back({.op = Op::all_gather,
                     .axes = {axes.begin(), axes.end()},
                     .dim = static_cast<int>(dim),
                     .after = std::move(after)});
    }
  }
}

// Its part, to each other member. The first part is whole, or as long as the result.
int64_t gather_bytes(const Conversion& conversion, const Layout& before, const Step& step) {
  const int64_t others = size_of_axes(conversion.mesh, step.axes) - 1;
  const auto dim = static_cast<size_t>(step.dim);
  const int64_t rows = std::min(conversion.rows(before, dim), conversion.rows(step.after, dim));
  return bounded_product(rows * row_bytes(conversion, before, dim), others);
}

Attrs gather_attrs(const Mesh& mesh, const Step& step, const Dims& local_after) {
  return {{"axes", names_of(mesh, step.axes)},
          {"dim", int64_t{step.dim}},
          {"parts", size_of_axes(mesh, step.axes)},
          {"size", local_after[static_cast<size_t>(step.dim)]}};
}

}  // namespace

const StepKind kAllGather{Op::all_gather, true, offer_gather, gather_bytes, gather_attrs};

}  // namespace gangway::conversions
