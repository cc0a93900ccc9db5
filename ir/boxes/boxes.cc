#include "ir/boxes/boxes.h"

#include <algorithm>

#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// The parts of a tensor over one mesh: what they are, and which devices hold each.
class Parts {
 public:
  // `receives`: of a partial sum only the first device along an axis holds anything.
  Parts(const Type& type, const MeshSharding& at, bool receives) : type_(type), mesh_(at.mesh) {
    GW_REQUIRE(local_type(type, at.mesh, at.sharding).has_value(), "boxes: ", to_string(type),
               " can't be placed as ", to_string(at.mesh, at.sharding), " over ",
               to_string(at.mesh));
    for (int dim = 0; dim < type.rank(); ++dim) cuts_.push_back(cut_axes(at.sharding, dim));
    for (size_t axis = 0; axis < at.sharding.size(); ++axis) {
      const Placement& placement = at.sharding[axis];
      if (placement.kind == PlacementKind::kShard) continue;
      if (is_partial(placement)) {
        GW_REQUIRE(receives, "boxes: terms can't leave their mesh: got ",
                   to_string(at.mesh, at.sharding), "; convert the value first");
        if (placement.reduction == Reduction::kSum) {
          firsts_.push_back(static_cast<int>(axis));
          continue;
        }
      }
      copies_.push_back(static_cast<int>(axis));
    }
  }

  // How many devices hold the same part.
  int64_t copies() const { return product(copies_); }
  // The device's number among those that hold the same part; -1 if it holds none of a sum.
  int64_t copy_of(int64_t device) const {
    for (const int axis : firsts_) {
      if (mesh_.coordinate(device, axis) != 0) return -1;
    }
    return number_over(copies_, device);
  }
  // The number of its part.
  int64_t part_of(int64_t device) const {
    int64_t number = 0;
    for (const std::vector<int>& cuts : cuts_)
      number = number * product(cuts) + number_over(cuts, device);
    return number;
  }
  int64_t device(int64_t part, int64_t copy) const {
    std::vector<int64_t> coordinates(mesh_.axes.size(), 0);
    place(copies_, copy, coordinates);
    for (size_t dim = cuts_.size(); dim-- > 0;) {
      place(cuts_[dim], part % product(cuts_[dim]), coordinates);
      part /= product(cuts_[dim]);
    }
    int64_t device = 0;
    for (size_t axis = 0; axis < coordinates.size(); ++axis)
      device = device * mesh_.axes[axis].size + coordinates[axis];
    return device;
  }

  Box box(int64_t device) const {
    Box box;
    for (size_t dim = 0; dim < cuts_.size(); ++dim) {
      int64_t begin = 0, rows = type_.dims[dim], end = rows;
      for (const int axis : cuts_[dim]) {
        rows = part_rows(rows, axis);
        begin += mesh_.coordinate(device, axis) * rows;
        // Rows behind an outer part's rows are padding in the inner parts.
        begin = std::min(begin, end);
        end = std::min(end, begin + rows);
      }
      box.begin.push_back(begin);
      box.size.push_back(end - begin);
    }
    return box;
  }

  struct Overlap {
    int64_t part = 0;
    Box box;
  };
  // The parts that have rows of `box`, and these rows; ascending.
  std::vector<Overlap> overlaps(const Box& box) const {
    std::vector<Overlap> found = {{}};
    for (size_t dim = 0; dim < cuts_.size(); ++dim) {
      std::vector<Rows> rows;
      const int64_t begin = box.begin[dim], end = begin + box.size[dim];
      overlap(dim, 0, {0, 0, type_.dims[dim]}, type_.dims[dim], {0, begin, end}, rows);
      std::vector<Overlap> longer;
      for (const Overlap& outer : found) {
        for (const Rows& inner : rows) {
          longer.push_back(outer);
          Overlap& next = longer.back();
          next.part = next.part * product(cuts_[dim]) + inner.part;
          next.box.begin.push_back(inner.begin);
          next.box.size.push_back(inner.end - inner.begin);
        }
      }
      found = std::move(longer);
    }
    return found;
  }

 private:
  struct Rows {
    int64_t part = 0, begin = 0, end = 0;
  };

  int64_t size(int axis) const { return mesh_.axes[static_cast<size_t>(axis)].size; }
  int64_t part_rows(int64_t rows, int axis) const { return ceil_div(rows, size(axis)); }

  int64_t product(const std::vector<int>& axes) const {
    int64_t all = 1;
    for (const int axis : axes) all *= size(axis);
    return all;
  }
  int64_t number_over(const std::vector<int>& axes, int64_t device) const {
    int64_t number = 0;
    for (const int axis : axes) number = number * size(axis) + mesh_.coordinate(device, axis);
    return number;
  }
  void place(const std::vector<int>& axes, int64_t number,
             std::vector<int64_t>& coordinates) const {
    for (size_t i = axes.size(); i-- > 0; number /= size(axes[i]))
      coordinates[static_cast<size_t>(axes[i])] = number % size(axes[i]);
  }

  // `outer`: a part that the first `level` axes cut, `padded` rows with its padding.
  void overlap(size_t dim, size_t level, const Rows& outer, int64_t padded, const Rows& wanted,
               std::vector<Rows>& out) const {
    const int64_t begin = std::max(outer.begin, wanted.begin);
    const int64_t end = std::min(outer.end, wanted.end);
    if (begin >= end) return;
    if (level == cuts_[dim].size()) {
      out.push_back({outer.part, begin, end});
      return;
    }
    const int axis = cuts_[dim][level];
    const int64_t rows = part_rows(padded, axis);
    const int64_t last = (end - 1 - outer.begin) / rows;
    for (int64_t i = (begin - outer.begin) / rows; i <= last; ++i) {
      const int64_t first = outer.begin + i * rows;
      const Rows inner{outer.part * size(axis) + i, first, std::min(outer.end, first + rows)};
      overlap(dim, level + 1, inner, rows, wanted, out);
    }
  }

  const Type& type_;
  const Mesh& mesh_;
  std::vector<std::vector<int>> cuts_;  // Indexed by dimension, outer axis first.
  std::vector<int> copies_;             // Axes along which devices hold the same.
  std::vector<int> firsts_;             // Axes along which only the first device holds anything.
};

bool is_empty(const Box& box) {
  return std::ranges::any_of(box.size, [](int64_t size) { return size == 0; });
}

}  // namespace

Box box_of(const Type& type, const MeshSharding& at, int64_t device) {
  return Parts(type, at, true).box(device);
}

// Receiver number `part x copies + copy` of the second mesh is served by that number modulo the
// copies of the first.
std::vector<BoxCopy> boxes_sent(const Type& type, const MeshSharding& from, const MeshSharding& to,
                                int64_t device) {
  const Parts senders(type, from, false), receivers(type, to, true);
  const int64_t own = senders.copy_of(device), turns = senders.copies();
  std::vector<BoxCopy> copies;
  const Box held = senders.box(device);
  if (is_empty(held)) return copies;
  for (const Parts::Overlap& overlap : receivers.overlaps(held)) {
    const int64_t first = overlap.part % turns * (receivers.copies() % turns) % turns;
    for (int64_t copy = (own - first + turns) % turns; copy < receivers.copies(); copy += turns)
      copies.push_back({device, receivers.device(overlap.part, copy), overlap.box});
  }
  std::ranges::sort(copies, {}, &BoxCopy::to);
  return copies;
}

std::vector<BoxCopy> boxes_received(const Type& type, const MeshSharding& from,
                                    const MeshSharding& to, int64_t device) {
  const Parts senders(type, from, false), receivers(type, to, true);
  const int64_t own = receivers.copy_of(device), turns = senders.copies();
  std::vector<BoxCopy> copies;
  const Box wanted = receivers.box(device);
  if (own < 0 || is_empty(wanted)) return copies;
  const int64_t first = receivers.part_of(device) % turns * (receivers.copies() % turns) % turns;
  for (const Parts::Overlap& overlap : senders.overlaps(wanted))
    copies.push_back({senders.device(overlap.part, (first + own) % turns), device, overlap.box});
  std::ranges::sort(copies, {}, &BoxCopy::from);
  return copies;
}

}  // namespace gangway
