// shard(i) -> shard(j): each member cuts its part along j and sends one piece to each other, who
// lays the pieces out along i. The innermost axes of i become the innermost of j, in their order;
// several at once where both cuts are flat.
#include <algorithm>

#include "ir/transforms/conversions/steps/step.h"

namespace gangway::conversions {
namespace {

void offer_exchange(const Conversion& conversion, const Layout& at, std::vector<Step>& out) {
  for (size_t dim = 0; dim < at.cuts.size(); ++dim) {
    for (size_t count = 1; count <= conversion.movable(at, dim); ++count) {
      const std::span<const int> axes = conversion.innermost(at, dim, count);
      if (!is_flat(conversion.mesh, conversion.rows_cut_by(at, dim, count), axes)) continue;
      for (size_t to = 0; to < at.cuts.size(); ++to) {
        if (to == dim || !is_flat(conversion.mesh, conversion.rows(at, to), axes)) continue;
        Layout after = at;
        after.cuts[dim].resize(at.cuts[dim].size() - count);
        after.cuts[to].insert(after.cuts[to].end(), axes.begin(), axes.end());
        out.push_back({.op = Op::all_to_all,
                       .axes = {axes.begin(), axes.end()},
                       .dim = static_cast<int>(dim),
                       .to_dim = static_cast<int>(to),
                       .after = std::move(after)});
      }
    }
  }
}

// All pieces but its own. Among the rows that are joined, the first members have whole parts, the
// next one may have some that are not dropped, and the others have none; among the rows that are
// cut, the last members have the smallest pieces.
int64_t exchange_bytes(const Conversion& conversion, const Layout& before, const Step& step) {
  const auto dim = static_cast<size_t>(step.dim), split = static_cast<size_t>(step.to_dim);
  const int64_t members = size_of_axes(conversion.mesh, step.axes);
  const int64_t part = conversion.rows(before, dim), joined = conversion.rows(step.after, dim);
  const int64_t rows = conversion.rows(before, split), piece = conversion.rows(step.after, split);
  if (part == 0 || rows == 0) return 0;
  int64_t most = 0;
  for (const int64_t member : {joined / part - 1, joined / part}) {
    if (member < 0 || member >= members) continue;
    const int64_t kept = std::min(part, joined - member * part);
    const int64_t own =
        member > rows / piece ? 0 : std::clamp(rows - member * piece, int64_t{0}, piece);
    most = std::max(most, kept * (rows - own));
  }
  Dims one = local_dims(conversion.global, conversion.mesh, before);
  one[dim] = one[split] = 1;
  return most * conversion.global.with(std::move(one)).bytes();
}

Attrs exchange_attrs(const Mesh& mesh, const Step& step, const Dims& local_after) {
  return {{"axes", names_of(mesh, step.axes)},
          {"split_dim", int64_t{step.to_dim}},
          {"concat_dim", int64_t{step.dim}},
          {"parts", size_of_axes(mesh, step.axes)},
          {"size", local_after[static_cast<size_t>(step.dim)]}};
}

}  // namespace

const StepKind kAllToAll{Op::all_to_all, true, offer_exchange, exchange_bytes, exchange_attrs};

}  // namespace gangway::conversions
