// partial -> shard: the members' terms are reduced, and each keeps its part of the result. The axes
// become the innermost cuts of the dimension, several at once where these are flat.
#include <algorithm>

#include "ir/transforms/conversions/steps/step.h"

namespace gangway::conversions {
namespace {

void offer_scatter(const Conversion& conversion, const Layout& at, std::vector<Step>& out) {
  for (const Axes& axes : ordered_subsets(conversion, conversion.moving_partial(at))) {
    for (size_t dim = 0; dim < at.cuts.size(); ++dim) {
      if (!is_flat(conversion.mesh, conversion.rows(at, dim), axes)) continue;
      Layout after = at;
      std::erase_if(after.partial, [&](int axis) { return std::ranges::count(axes, axis) > 0; });
      if (after.partial.empty()) after.reduction = Reduction::kSum;
      after.cuts[dim].insert(after.cuts[dim].end(), axes.begin(), axes.end());
      out.push_back({.op = Op::reduce_scatter,
                     .axes = axes,
                     .to_dim = static_cast<int>(dim),
                     .reduction = at.reduction,
                     .after = std::move(after)});
    }
  }
}

// Its term of each other member's part.
int64_t scatter_bytes(const Conversion& conversion, const Layout& before, const Step& step) {
  const auto dim = static_cast<size_t>(step.to_dim);
  const int64_t members = size_of_axes(conversion.mesh, step.axes);
  return rows_of_others(conversion.rows(before, dim), members) * row_bytes(conversion, before, dim);
}

Attrs scatter_attrs(const Mesh& mesh, const Step& step, const Dims& /*local_after*/) {
  return {{"axes", names_of(mesh, step.axes)},
          {"dim", int64_t{step.to_dim}},
          {"parts", size_of_axes(mesh, step.axes)},
          {"reduction", std::string(to_string(step.reduction))}};
}

}  // namespace

const StepKind kReduceScatter{Op::reduce_scatter, true, offer_scatter, scatter_bytes,
                              scatter_attrs};

}  // namespace gangway::conversions
