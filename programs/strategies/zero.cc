#include "programs/strategies/zero.h"

#include <algorithm>

namespace gangway::programs {
namespace {

AxisPlacements placements_in(const std::vector<PlacementRule>& rules, const std::string& name) {
  AxisPlacements all;
  for (const PlacementRule& rule : rules) {
    if (rule.pattern == name) all.insert(all.end(), rule.placements.begin(), rule.placements.end());
  }
  return all;
}

// Returns a dimension that can be cut evenly into `parts` more parts, if possible a whole one; -1:
// there is none.
int dim_for(const Mesh& mesh, const Dims& dims, const AxisPlacements& taken, int64_t parts) {
  const auto fits = [&](int dim, bool want_whole) {
    const int64_t before = parts_of(mesh, taken, dim);
    return want_whole == (before == 1) && dims[static_cast<size_t>(dim)] % (before * parts) == 0;
  };
  for (const bool want_whole : {true, false}) {
    for (int dim = 0; dim < static_cast<int>(dims.size()); ++dim) {
      if (fits(dim, want_whole)) return dim;
    }
  }
  return -1;
}

// Returns placements for as many of the axes as one dimension can be cut by.
AxisPlacements cut_for_storage(const Mesh& mesh, const Dims& dims, const AxisPlacements& taken) {
  std::vector<std::string> axes = expert_axes(mesh);
  axes.emplace(axes.begin(), kDataAxis);
  std::erase_if(axes, [&](const std::string& axis) {
    const auto is_it = [&](const auto& item) { return item.first == axis; };
    return size_of(mesh, axis) == 1 || std::ranges::any_of(taken, is_it);
  });
  for (; !axes.empty(); axes.pop_back()) {
    int64_t parts = 1;
    for (const std::string& axis : axes) parts *= size_of(mesh, axis);
    const int dim = dim_for(mesh, dims, taken, parts);
    if (dim < 0) continue;
    AxisPlacements cut;
    const int order = parts_of(mesh, taken, dim) > 1 ? 1 : 0;
    for (const std::string& axis : axes) cut.emplace_back(axis, shard(dim, order));
    return cut;
  }
  return {};
}

}  // namespace

Strategy zero(int stage, Strategy of, const Mesh& mesh, const StateTree& parameters) {
  GW_REQUIRE(stage >= 1 && stage <= 3, "zero: there are stages 1, 2 and 3, got ", stage);
  parameters.for_each([&](const std::string& name, const StateSpec& spec) {
    AxisPlacements cut =
        cut_for_storage(mesh, layer_type(spec).dims, placements_in(of.parameters, name));
    if (cut.empty()) return;
    const PlacementRule rule{name, std::move(cut), kStoragePriority};
    (stage == 3 ? of.parameters : of.moments).push_back(rule);
    if (stage >= 2) of.gradients.push_back(rule);
  });
  return of;
}

}  // namespace gangway::programs
