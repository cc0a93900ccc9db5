// replicate -> partial(sum): member 0 keeps its value, the others hold zeros. Nothing is sent. A
// replicated value is a partial maximum and minimum as it stands.
//
// Offered only where the conversion ends so: a sum on the way would have to be reduced again.
#include <algorithm>

#include "ir/transforms/conversions/steps/step.h"

namespace gangway::conversions {
namespace {

void offer_keep_first(const Conversion& conversion, const Layout& at, std::vector<Step>& out) {
  if (conversion.to.reduction != Reduction::kSum || at.reduction != Reduction::kSum) return;
  Axes wanted;
  std::ranges::set_intersection(conversion.moving_replicated(at), conversion.to.partial,
                                std::back_inserter(wanted));
  for (const Axes& axes : subsets(conversion, wanted)) {
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
