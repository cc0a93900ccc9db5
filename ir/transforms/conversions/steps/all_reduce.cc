// partial -> replicate: every member gets the reduction of all terms.
#include <algorithm>

#include "ir/transforms/conversions/steps/step.h"
#include "runtime/base/align.h"

namespace gangway::conversions {
namespace {

void offer_reduce(const Conversion& conversion, const Layout& at, std::vector<Step>& out) {
  for (const Axes& axes : subsets(conversion, conversion.moving_partial(at))) {
    Layout after = at;
    std::erase_if(after.partial, [&](int axis) { return std::ranges::count(axes, axis) > 0; });
    if (after.partial.empty()) after.reduction = Reduction::kSum;
    out.push_back(
        {.op = Op::all_reduce, .axes = axes, .reduction = at.reduction, .after = std::move(after)});
  }
}

// Each member reduces its share of the elements and sends the result to all others: as much as a
// reduce-scatter and a gather, or a ring.
int64_t reduce_bytes(const Conversion& conversion, const Layout& before, const Step& step) {
  const int64_t members = size_of_axes(conversion.mesh, step.axes);
  const int64_t element = static_cast<int64_t>(size_of(conversion.global.dtype));
  const int64_t elements = conversion.local_bytes(before) / element;
  return elements * element + bounded_product(ceil_div(elements, members) * element, members - 2);
}

Attrs reduce_attrs(const Mesh& mesh, const Step& step, const Dims& /*local_after*/) {
  return {{"axes", names_of(mesh, step.axes)},
          {"reduction", std::string(to_string(step.reduction))}};
}

}  // namespace

const StepKind kAllReduce{Op::all_reduce, true, offer_reduce, reduce_bytes, reduce_attrs};

}  // namespace gangway::conversions
