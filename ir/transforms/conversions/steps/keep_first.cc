// replicate -> partial(sum): member 0 keeps its value, the others hold zeros. Nothing is sent. It
// also serves on the way: several axes become cuts in one reduce-scatter, also where one of them
// has to be the middle cut and was not partial.
#include <algorithm>

#include "ir/transforms/conversions/steps/step.h"

namespace gangway::conversions {
namespace {

void offer_keep_first(const Conversion& conversion, const Layout& at, std::vector<Step>& out) {
  if (at.reduction != Reduction::kSum) return;
  for (const Axes& axes : subsets(conversion, conversion.moving_replicated(at))) {
    Layout after = at;
    after.partial.clear();
    std::ranges::merge(at.partial, axes, std::back_inserter(after.partial));
    out.push_back({.op = Op::keep_first, .axes = axes, .after = std::move(after)});
  }
}

int64_t keep_first_bytes(const Conversion& /*conversion*/, const Layout& /*before*/,
                         const Step& /*step*/) {
  return 0;
}

Attrs keep_first_attrs(const Mesh& mesh, const Step& step, const Dims& /*local_after*/) {
  return {{"axes", names_of(mesh, step.axes)}};
}

}  // namespace

const StepKind kKeepFirst{Op::keep_first, false, offer_keep_first, keep_first_bytes,
                          keep_first_attrs};

}  // namespace gangway::conversions
