#include "ir/types/sharding.h"

#include <algorithm>
#include <charconv>

#include "ir/types/limits.h"
#include "runtime/base/error.h"
#include "runtime/base/quote.h"

namespace gangway {
namespace {

template <class Placements>
auto& on_axis(Placements& placements, int axis) {
  return placements[static_cast<size_t>(axis)];
}

std::optional<int> parse_below(std::string_view text, int limit) {
  int number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (number < 0 || number >= limit) return std::nullopt;
  return number;
}

bool is_plain(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// The name that `text` begins with, as quote() or a plain word; moves behind it.
std::optional<std::string> take_name(std::string_view& text) {
  if (!text.starts_with('"')) {
    const size_t end = std::min(text.find(':'), text.size());
    std::string name(text.substr(0, end));
    text.remove_prefix(end);
    if (!is_plain(name)) return std::nullopt;
    return name;
  }
  std::string name;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      // Whatever was written with other escapes than quote() makes is no name.
      const std::string_view quoted = text.substr(0, i + 1);
      text.remove_prefix(i + 1);
      if (internal::quote(name) != quoted) return std::nullopt;
      return name;
    }
    if (text[i] != '\\') {
      name += text[i];
    } else if (text.substr(i + 1).starts_with("u00") && i + 5 < text.size()) {
      int code = 0;
      std::from_chars(text.data() + i + 4, text.data() + i + 6, code, 16);
      name += static_cast<char>(code);
      i += 5;
    } else if (++i < text.size()) {
      name += text[i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
    }
  }
  return std::nullopt;
}

}  // namespace

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

std::vector<int> cut_axes(const Sharding& sharding, int dim) {
  std::vector<int> axes;
  for (size_t i = 0; i < sharding.size(); ++i) {
    if (sharding[i].kind == PlacementKind::kShard && sharding[i].dim == dim)
      axes.push_back(static_cast<int>(i));
  }
  std::ranges::stable_sort(axes, {}, [&](int axis) { return on_axis(sharding, axis).order; });
  return axes;
}

Sharding canonical(const Mesh& mesh, Sharding sharding) {
  int dims = 0;
  for (size_t i = 0; i < sharding.size() && i < mesh.axes.size(); ++i) {
    Placement& placement = sharding[i];
    if (mesh.axes[i].size == 1) placement = replicate();
    switch (placement.kind) {
      case PlacementKind::kReplicate: placement = replicate(); break;
      case PlacementKind::kShard:
        placement = shard(placement.dim, placement.order);
        dims = std::max(dims, std::min(placement.dim, kRankMax - 1) + 1);
        break;
      case PlacementKind::kPartial: placement = partial(placement.reduction); break;
    }
  }
  for (int dim = 0; dim < dims; ++dim) {
    const std::vector<int> axes = cut_axes(sharding, dim);
    const bool of_mesh = std::ranges::is_sorted(axes);
    int next = 0;
    for (int axis : axes) on_axis(sharding, axis).order = of_mesh ? 0 : next++;
  }
  return sharding;
}

std::optional<Type> local_type(const Type& type, const Mesh& mesh, const Sharding& sharding) {
  if (sharding.size() != mesh.axes.size()) return std::nullopt;
  // Parts of parts are as large in any order of the cuts: ceil(ceil(n / a) / b) = ceil(n / (ab)).
  Type local = type;
  for (size_t i = 0; i < sharding.size(); ++i) {
    if (sharding[i].kind != PlacementKind::kShard) continue;
    if (sharding[i].dim < 0 || sharding[i].dim >= type.rank()) return std::nullopt;
    int64_t& size = local.dims[static_cast<size_t>(sharding[i].dim)];
    size = size / mesh.axes[i].size + (size % mesh.axes[i].size != 0 ? 1 : 0);
  }
  return local;
}

bool cuts_evenly(const Type& type, const Mesh& mesh, const Sharding& sharding) {
  const std::optional<Type> local = local_type(type, mesh, sharding);
  if (!local) return false;
  Dims left = type.dims;
  for (size_t i = 0; i < sharding.size(); ++i) {
    if (sharding[i].kind != PlacementKind::kShard) continue;
    int64_t& size = left[static_cast<size_t>(sharding[i].dim)];
    if (size % mesh.axes[i].size != 0) return false;
    size /= mesh.axes[i].size;
  }
  return true;
}

std::string to_string(const Placement& placement) {
  switch (placement.kind) {
    case PlacementKind::kReplicate: return "replicate";
    case PlacementKind::kShard:
      return cat("shard(", placement.dim, ")",
                 placement.order == 0 ? "" : cat("@", placement.order));
    case PlacementKind::kPartial:
      return placement.reduction == Reduction::kSum
                 ? "partial"
                 : cat("partial(", to_string(placement.reduction), ")");
  }
  return "replicate";
}

std::optional<Placement> parse_placement(std::string_view text) {
  if (text == "replicate") return replicate();
  if (text == "partial") return partial();
  if (text.ends_with(")") && text.starts_with("partial(")) {
    const auto reduction = parse_reduction(text.substr(8, text.size() - 9));
    if (!reduction) return std::nullopt;
    return partial(*reduction);
  }
  constexpr std::string_view kOpen = "shard(";
  const size_t close = text.find(')');
  if (!text.starts_with(kOpen) || close == std::string_view::npos) return std::nullopt;
  const auto dim = parse_below(text.substr(kOpen.size(), close - kOpen.size()), kRankMax);
  if (!dim) return std::nullopt;
  text.remove_prefix(close + 1);
  if (text.empty()) return shard(*dim);
  if (text.front() != '@') return std::nullopt;
  const auto order = parse_below(text.substr(1), static_cast<int>(kMeshAxesMax));
  if (!order) return std::nullopt;
  return shard(*dim, *order);
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

std::string to_string(const AxisPlacements& placements) {
  std::string text;
  for (const auto& [axis, placement] : placements) {
    text += cat(text.empty() ? "" : ", ", is_plain(axis) ? axis : internal::quote(axis), ": ",
                to_string(placement));
  }
  return text;
}

std::optional<AxisPlacements> parse_axis_placements(std::string_view text) {
  AxisPlacements placements;
  while (!text.empty()) {
    const std::optional<std::string> axis = take_name(text);
    if (!axis || !text.starts_with(": ")) return std::nullopt;
    text.remove_prefix(2);
    const size_t end = std::min(text.find(','), text.size());
    const std::optional<Placement> placement = parse_placement(text.substr(0, end));
    if (!placement) return std::nullopt;
    placements.emplace_back(*axis, *placement);
    text.remove_prefix(end);
    if (text.empty()) break;
    if (!text.starts_with(", ") || text.size() == 2) return std::nullopt;
    text.remove_prefix(2);
  }
  return placements;
}

}  // namespace gangway
