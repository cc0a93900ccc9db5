#include "ir/types/sharding.h"

#include <charconv>

#include "runtime/base/error.h"

namespace gangway {

Sharding replicated(const Mesh& mesh) { return Sharding(mesh.axes.size()); }

Sharding resolve(const Mesh& mesh, const AxisPlacements& placements) {
  Sharding sharding = replicated(mesh);
  std::vector<bool> named(mesh.axes.size(), false);
  for (const auto& [name, placement] : placements) {
    int axis = mesh.axis(name);
    GW_REQUIRE(axis >= 0, "sharding: mesh ", to_string(mesh), " has no axis \"", name, "\"");
    GW_REQUIRE(!named[static_cast<size_t>(axis)], "sharding: axis \"", name, "\" is named twice");
    named[static_cast<size_t>(axis)] = true;
    sharding[static_cast<size_t>(axis)] = placement;
  }
  return sharding;
}

std::optional<Type> local_type(const Type& type, const Mesh& mesh, const Sharding& sharding) {
  if (sharding.size() != mesh.axes.size()) return std::nullopt;
  Type local = type;
  for (size_t i = 0; i < sharding.size(); ++i) {
    if (sharding[i].kind != PlacementKind::kShard) continue;
    if (sharding[i].dim < 0 || sharding[i].dim >= type.rank()) return std::nullopt;
    int64_t& dim = local.dims[static_cast<size_t>(sharding[i].dim)];
    if (dim % mesh.axes[i].size != 0) return std::nullopt;
    dim /= mesh.axes[i].size;
  }
  return local;
}

std::string to_string(const Placement& placement) {
  switch (placement.kind) {
    case PlacementKind::kReplicate: return "replicate";
    case PlacementKind::kShard: return "shard(" + std::to_string(placement.dim) + ")";
    case PlacementKind::kPartial: return "partial";
  }
  return "replicate";
}

std::optional<Placement> parse_placement(std::string_view text) {
  if (text == "replicate") return replicate();
  if (text == "partial") return partial();
  constexpr std::string_view kOpen = "shard(";
  if (!text.starts_with(kOpen) || !text.ends_with(")")) return std::nullopt;
  text.remove_prefix(kOpen.size());
  text.remove_suffix(1);
  int dim = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (dim < 0 || dim >= kRankMax) return std::nullopt;
  return shard(dim);
}

std::string to_string(const Mesh& mesh, const Sharding& sharding) {
  std::string text = "{";
  for (size_t i = 0; i < sharding.size() && i < mesh.axes.size(); ++i) {
    if (sharding[i].kind == PlacementKind::kReplicate) continue;
    if (text.size() > 1) text += ", ";
    text += mesh.axes[i].name + ": " + to_string(sharding[i]);
  }
  return text + "}";
}

}  // namespace gangway
