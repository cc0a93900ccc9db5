#include "programs/strategies/strategy.h"

#include <algorithm>
#include <map>

#include "runtime/base/error.h"

namespace gangway::programs {
namespace {

bool names_axis(const AxisPlacements& placements, const std::string& axis) {
  return std::ranges::any_of(placements, [&](const auto& item) { return item.first == axis; });
}

// Returns the rules' placements that fit one parameter, by priority.
std::map<int, AxisPlacements> placements_of(const std::vector<PlacementRule>& rules,
                                            const Mesh& mesh, const std::string& name,
                                            const Dims& dims) {
  std::map<int, AxisPlacements> said;
  AxisPlacements all;
  for (const PlacementRule& rule : rules) {
    if (!matches(rule.pattern, name)) continue;
    for (const auto& [axis, placement] : rule.placements) {
      const int64_t size = size_of(mesh, axis);
      if (size == 1 || names_axis(all, axis)) continue;
      const int64_t rows = dims.at(static_cast<size_t>(placement.dim));
      if (rows % (size * parts_of(mesh, all, placement.dim)) != 0) continue;
      all.emplace_back(axis, placement);
      said[rule.priority].emplace_back(axis, placement);
    }
  }
  return said;
}

std::vector<PlacementRule> spelled_out(const std::vector<PlacementRule>& rules, const Mesh& mesh,
                                       const StateTree& parameters) {
  std::vector<PlacementRule> out;
  parameters.for_each([&](const std::string& name, const StateSpec& spec) {
    for (auto& [priority, placements] : placements_of(rules, mesh, name, layer_type(spec).dims))
      out.push_back({name, std::move(placements), priority});
  });
  return out;
}

}  // namespace

Strategy combine(const std::vector<Strategy>& parts, const Mesh& mesh,
                 const StateTree& parameters) {
  Strategy all;
  std::vector<PlacementRule> rules;
  for (const Strategy& part : parts) {
    all.batch.insert(all.batch.end(), part.batch.begin(), part.batch.end());
    rules.insert(rules.end(), part.parameters.begin(), part.parameters.end());
    all.activations.insert(all.activations.end(), part.activations.begin(), part.activations.end());
  }
  all.parameters = spelled_out(rules, mesh, parameters);
  return all;
}

std::vector<PlacementRule> below(std::string_view prefix, std::vector<PlacementRule> rules) {
  for (PlacementRule& rule : rules) rule.pattern = cat(prefix, ".", rule.pattern);
  return rules;
}

std::vector<std::string> batch_axes(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.size > 1 && axis.name != kModelAxis && axis.name != kContextAxis)
      axes.push_back(axis.name);
  }
  return axes;
}

std::vector<std::string> expert_axes(const Mesh& mesh) {
  std::vector<std::string> axes;
  std::string axis(kExpertAxis);
  for (int next = 2; mesh.axis(axis) >= 0; axis = cat(kExpertAxis, next++)) {
    if (size_of(mesh, axis) > 1) axes.push_back(axis);
  }
  return axes;
}

int64_t parts_of(const Mesh& mesh, const AxisPlacements& placements, int dim) {
  int64_t parts = 1;
  for (const auto& [axis, placement] : placements) {
    if (placement.kind == PlacementKind::kShard && placement.dim == dim)
      parts *= size_of(mesh, axis);
  }
  return parts;
}

int64_t size_of(const Mesh& mesh, std::string_view axis) {
  const int at = mesh.axis(axis);
  return at < 0 ? 1 : mesh.axes[static_cast<size_t>(at)].size;
}

}  // namespace gangway::programs
