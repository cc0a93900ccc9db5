#include "ir/plan/axis_links.h"

#include <algorithm>
#include <cstdint>

namespace gangway {
namespace {

// Mesh devices of one host, up to where the next such piece begins.
struct Piece {
  int64_t end = 0;
  uint32_t host = 0;
};

std::vector<Piece> pieces_of(const PlanSlice& slice) {
  std::vector<Piece> pieces;
  int64_t end = 0;
  for (const PlanRange& range : slice.ranges) {
    end += int64_t{range.count} * slice.ranks_per_device;
    pieces.push_back({end, range.host});
  }
  return pieces;
}

// Whether any device of [begin, end) has a next one along an axis of `size` devices, at least two,
// that lie `stride` apart.
bool any_has_next(int64_t begin, int64_t end, int64_t stride, int64_t size) {
  const bool first_is_last = begin / stride % size == size - 1;
  return !first_is_last || (end - 1) / stride != begin / stride;
}

LinkClass slowest_along(const Plan& plan, const std::vector<Piece>& pieces, int64_t stride,
                        int64_t size) {
  LinkClass slowest = LinkClass::kHost;
  if (size == 1) return slowest;
  size_t near = 0, far = 0;  // The pieces of device `at`, and of the one `stride` behind it.
  for (int64_t at = 0; at + stride < pieces.back().end;) {
    while (pieces[near].end <= at) ++near;
    while (pieces[far].end <= at + stride) ++far;
    const int64_t end = std::min(pieces[near].end, pieces[far].end - stride);
    if (any_has_next(at, end, stride, size))
      slowest = std::max(slowest, link_class(plan, pieces[near].host, pieces[far].host));
    at = end;
  }
  return slowest;
}

}  // namespace

std::vector<LinkClass> axis_links(const Plan& plan, const PlanSlice& slice) {
  const std::vector<Piece> pieces = pieces_of(slice);
  std::vector<LinkClass> links(slice.mesh.axes.size(), LinkClass::kHost);
  if (pieces.empty()) return links;
  int64_t stride = 1;
  for (size_t axis = links.size(); axis-- > 0;) {
    const int64_t size = slice.mesh.axes[axis].size;
    links[axis] = slowest_along(plan, pieces, stride, size);
    stride *= size;
  }
  return links;
}

}  // namespace gangway
