// replicate -> shard: a device keeps its part of what it has. Nothing is sent. The axis becomes the
// innermost cut of the dimension: what an outer one would leave lies on other devices.
#include "ir/transforms/conversions/steps/step.h"

namespace gangway::conversions {
namespace {

void offer_slice(const Conversion& conversion, const Layout& at, std::vector<Step>& out) {
  for (const int axis : conversion.moving_replicated(at)) {
    for (size_t dim = 0; dim < at.cuts.size(); ++dim) {
      Layout after = at;
      after.cuts[dim].push_back(axis);
      out.push_back({.op = Op::shard_slice,
                     .axes = {axis},
                     .to_dim = static_cast<int>(dim),
                     .after = std::move(after)});
    }
  }
}

int64_t slice_bytes(const Conversion& /*conversion*/, const Layout& /*before*/,
                    const Step& /*step*/) {
  return 0;
}

Attrs slice_attrs(const Mesh& mesh, const Step& step, const Dims& /*local_after*/) {
  return {{"axis", names_of(mesh, step.axes)},
          {"dim", int64_t{step.to_dim}},
          {"parts", size_of_axes(mesh, step.axes)}};
}

}  // namespace

const StepKind kSlice{Op::shard_slice, false, offer_slice, slice_bytes, slice_attrs};

}  // namespace gangway::conversions
