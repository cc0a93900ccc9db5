#include "tests/numerics/sharded_literals.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>

#include "runtime/base/error.h"
#include "tests/interpret/interpret.h"

namespace gangway::numerics {
namespace {

bool same_bits(const Literal& a, const Literal& b) {
  return a.type == b.type &&
         std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(double)) == 0;
}

// Lists all axes, outer cuts before inner ones of the same dimension.
std::vector<int> outer_first(const Sharding& sharding) {
  std::vector<int> axes(sharding.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::ranges::stable_sort(axes, {},
                           [&](int axis) { return sharding[static_cast<size_t>(axis)].order; });
  return axes;
}

// The parts of devices first, first + stride, ... along the first of `axes` become one.
Literal join_axis(const Mesh& mesh, const Sharding& sharding, const std::vector<Literal>& parts,
                  std::span<const int> axes, size_t first) {
  if (axes.empty()) return parts[first];
  const auto axis = static_cast<size_t>(axes[0]);
  size_t stride = 1;
  for (size_t a = axis + 1; a < mesh.axes.size(); ++a)
    stride *= static_cast<size_t>(mesh.axes[a].size);
  std::vector<Literal> along;
  for (int64_t i = 0; i < mesh.axes[axis].size; ++i)
    along.push_back(
        join_axis(mesh, sharding, parts, axes.subspan(1), first + static_cast<size_t>(i) * stride));
  if (sharding[axis].kind == PlacementKind::kShard) return join(along, sharding[axis].dim);
  GW_ASSERT(sharding[axis] == replicate(), "a function's result is partial");
  for (const Literal& other : along)
    GW_ASSERT(same_bits(other, along[0]), "devices along ", mesh.axes[axis].name,
              " hold different copies of a replicated value");
  return along[0];
}

}  // namespace

std::vector<std::vector<Literal>> cut(const Mesh& mesh, const std::vector<Sharding>& shardings,
                                      const std::vector<Literal>& whole) {
  std::vector<std::vector<Literal>> parts(static_cast<size_t>(mesh.devices()));
  for (size_t device = 0; device < parts.size(); ++device) {
    for (size_t i = 0; i < whole.size(); ++i) {
      Literal part = whole[i];
      for (int axis : outer_first(shardings[i])) {
        const Placement& placement = shardings[i][static_cast<size_t>(axis)];
        if (placement.kind != PlacementKind::kShard) continue;
        int64_t at = mesh.coordinate(static_cast<int64_t>(device), axis);
        part = part_of(part, placement.dim, mesh.axes[static_cast<size_t>(axis)].size, at);
      }
      parts[device].push_back(std::move(part));
    }
  }
  return parts;
}

std::vector<Literal> put_together(const Mesh& mesh, const std::vector<Sharding>& shardings,
                                  const std::vector<std::vector<Literal>>& parts) {
  std::vector<Literal> whole;
  for (size_t i = 0; i < shardings.size(); ++i) {
    std::vector<Literal> of_value;
    for (const auto& device : parts) of_value.push_back(device[i]);
    whole.push_back(join_axis(mesh, shardings[i], of_value, outer_first(shardings[i]), 0));
  }
  return whole;
}

std::vector<Literal> interpret_compiled(const Compiled& compiled,
                                        const std::vector<Literal>& arguments) {
  const Function& local = *compiled.local.function;
  auto results = interpret_local(local, cut(local.mesh, compiled.parameter_shardings, arguments));
  return put_together(local.mesh, compiled.result_shardings, results);
}

double relative_difference(const std::vector<Literal>& a, const std::vector<Literal>& b) {
  GW_REQUIRE(a.size() == b.size(), "compared ", a.size(), " literals with ", b.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    GW_REQUIRE(a[i].type.dims == b[i].type.dims, "literal ", i, ": compared ", to_string(a[i].type),
               " with ", to_string(b[i].type));
    for (size_t k = 0; k < a[i].values.size(); ++k) {
      double x = a[i].values[k], y = b[i].values[k];
      if (x == y || (std::isnan(x) && std::isnan(y))) {
        if (std::isfinite(y)) norm += y * y;
        continue;
      }
      if (!std::isfinite(x) || !std::isfinite(y)) return std::numeric_limits<double>::infinity();
      error += (x - y) * (x - y);
      norm += y * y;
    }
  }
  return error == 0 ? 0 : std::sqrt(error / norm);
}

}  // namespace gangway::numerics
