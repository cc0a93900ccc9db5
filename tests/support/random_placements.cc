#include "tests/support/random_placements.h"

#include <algorithm>

namespace gangway::tests {
namespace {

constexpr int64_t kDevices = 12;

size_t draw_below(std::mt19937_64& random, size_t n) { return static_cast<size_t>(random() % n); }

}  // namespace

Mesh random_mesh(std::mt19937_64& random) {
  Mesh mesh;
  int64_t left = kDevices;
  const size_t count = 1 + draw_below(random, 3);
  for (const char* name : {"a", "b", "c"}) {
    if (mesh.axes.size() == count) break;
    const auto most = static_cast<size_t>(std::min<int64_t>(4, left));
    mesh.axes.push_back({name, static_cast<int64_t>(1 + draw_below(random, most))});
    left /= mesh.axes.back().size;
  }
  return mesh;
}

AxisPlacements random_placements(std::mt19937_64& random, const Mesh& mesh, const Type& type,
                                 Parts parts) {
  AxisPlacements placements;
  for (const MeshAxis& axis : mesh.axes) {
    const size_t choice = draw_below(random, 4);
    if (choice == 0) placements.emplace_back(axis.name, replicate());
    if (choice < 2 || type.rank() == 0) continue;
    placements.emplace_back(axis.name, shard(static_cast<int>(draw_below(random, type.dims.size())),
                                             static_cast<int>(draw_below(random, 3))));
  }
  while (parts == Parts::kEqual && !cuts_evenly(type, mesh, resolve(mesh, placements)))
    placements.pop_back();
  return placements;
}

std::vector<int> random_priorities(std::mt19937_64& random, size_t count) {
  std::vector<int> priorities(count);
  for (int& priority : priorities) priority = static_cast<int>(draw_below(random, 3));
  return priorities;
}

}  // namespace gangway::tests
