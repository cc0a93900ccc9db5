#include "tests/conversions/brute_force.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/base/error.h"

namespace gangway::tests {
namespace {

using AxisList = std::vector<size_t>;

std::string join_names(const Mesh& mesh, const AxisList& axes) {
  std::string text;
  for (const size_t axis : axes) text += (text.empty() ? "" : ",") + mesh.axes[axis].name;
  return text;
}

uint32_t bits_of(const AxisList& axes) {
  uint32_t bits = 0;
  for (const size_t axis : axes) bits |= 1u << axis;
  return bits;
}

int64_t product_of(const Mesh& mesh, const AxisList& axes) {
  int64_t product = 1;
  for (const size_t axis : axes) product *= mesh.axes[axis].size;
  return product;
}

// Every list of different axes.
std::vector<AxisList> all_lists(size_t axes) {
  std::vector<AxisList> lists;
  for (uint32_t mask = 1; mask < 1u << axes; ++mask) {
    AxisList list;
    for (size_t axis = 0; axis < axes; ++axis) {
      if (mask >> axis & 1) list.push_back(axis);
    }
    do {
      lists.push_back(list);
    } while (std::ranges::next_permutation(list).found);
  }
  return lists;
}

// The axes that cut a dimension, outer first.
AxisList cut_list(const Sharding& sharding, int dim) {
  std::vector<std::pair<int, size_t>> found;
  for (size_t axis = 0; axis < sharding.size(); ++axis) {
    if (sharding[axis].kind == PlacementKind::kShard && sharding[axis].dim == dim)
      found.emplace_back(sharding[axis].order, axis);
  }
  std::ranges::sort(found);
  AxisList axes;
  for (const auto& [order, axis] : found) axes.push_back(axis);
  return axes;
}

}  // namespace

std::vector<Sharding> all_shardings(const Mesh& mesh, int rank) {
  // Each axis replicates, is partial or cuts a dimension, in any order.
  std::vector<Sharding> found;
  const auto add = [&](const Sharding& sharding) {
    const Sharding spelling = canonical(mesh, sharding);
    if (std::ranges::count(found, spelling) == 0) found.push_back(spelling);
  };
  const auto axes = static_cast<int>(mesh.axes.size());
  const int roles = rank + 2;
  int choices = 1;
  for (int i = 0; i < axes; ++i) choices *= roles;
  std::vector<int> order(mesh.axes.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    for (int choice = 0; choice < choices; ++choice) {
      for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
        Sharding sharding;
        for (int i = 0, rest = choice; i < axes; ++i, rest /= roles) {
          const int role = rest % roles;
          sharding.push_back(role < rank    ? shard(role, order[static_cast<size_t>(i)])
                             : role == rank ? replicate()
                                            : partial(reduction));
        }
        add(sharding);
      }
    }
  } while (std::ranges::next_permutation(order).found);
  return found;
}

BruteForce::BruteForce(const Type& type, const Mesh& mesh, const std::vector<Sharding>& shardings)
    : type_(type), mesh_(mesh), shardings_(shardings) {
  for (const Sharding& sharding : shardings) held_.emplace_back(type, mesh, sharding);
  for (size_t from = 0; from < shardings.size(); ++from) try_all_of(from);
  std::ranges::sort(edges_);
  edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
}

void BruteForce::try_all_of(size_t from) {
  parts_ = held_[from].parts();
  whole_ = held_[from].whole();
  for (size_t to = 0; to < held_.size(); ++to) {
    if (to != from && held_[to].fits(parts_, whole_))
      edges_.push_back({from, to, moving(from, to), -1, false});
  }
  for (const AxisList& axes : all_lists(mesh_.axes.size())) {
    try_group(from, axes);
    if (std::ranges::is_sorted(axes)) try_permutations(from, axes);
  }
}

void BruteForce::try_group(size_t from, const AxisList& axes) {
  const std::string names = join_names(mesh_, axes);
  const int64_t parts = product_of(mesh_, axes);
  const uint32_t bits = bits_of(axes);
  const bool ascending = std::ranges::is_sorted(axes);
  const auto rank = static_cast<int64_t>(type_.dims.size());
  for (int64_t dim = 0; dim < rank; ++dim) {
    std::set<int64_t> sizes;  // Possible sizes of a part in this dimension.
    for (const HeldAs& held : held_) sizes.insert(held.dims()[static_cast<size_t>(dim)]);
    if (axes.size() == 1)
      try_op(from, Op::shard_slice, {{"axis", names}, {"dim", dim}, {"parts", parts}}, bits);
    for (const char* reduction : {"sum", "max", "min"}) {
      try_op(
          from, Op::reduce_scatter,
          {{"axes", names}, {"dim", dim}, {"parts", parts}, {"reduction", std::string(reduction)}},
          bits);
    }
    for (const int64_t size : sizes) {
      try_op(from, Op::all_gather,
             {{"axes", names}, {"dim", dim}, {"parts", parts}, {"size", size}}, bits);
      for (int64_t split = 0; split < rank; ++split) {
        if (split == dim) continue;
        try_op(from, Op::all_to_all,
               {{"axes", names},
                {"split_dim", split},
                {"concat_dim", dim},
                {"parts", parts},
                {"size", size}},
               bits);
      }
    }
  }
  if (!ascending) return;
  try_op(from, Op::keep_first, {{"axes", names}}, bits);
  for (const char* reduction : {"sum", "max", "min"}) {
    try_op(from, Op::all_reduce, {{"axes", names}, {"reduction", std::string(reduction)}}, bits);
  }
}

void BruteForce::try_permutations(size_t from, const AxisList& ascending) {
  AxisList axes = ascending;
  do {
    AxisList to = ascending;
    do {
      for (const int64_t shift : {0, 1}) {
        try_op(from, Op::permute,
               {{"axes", join_names(mesh_, axes)}, {"to", join_names(mesh_, to)}, {"shift", shift}},
               bits_of(axes));
      }
    } while (std::ranges::next_permutation(to).found);
  } while (std::ranges::next_permutation(axes).found);
}

void BruteForce::try_op(size_t from, Op op, const Attrs& attrs, uint32_t axes) {
  const std::optional<AfterOp> after = apply(mesh_, op, attrs, parts_);
  if (!after) return;
  const bool is_local = op == Op::shard_slice || op == Op::keep_first;
  const auto size = static_cast<int64_t>(size_of(type_.dtype));
  for (size_t to = 0; to < held_.size(); ++to) {
    if (to == from || !held_[to].fits(after->parts, whole_)) continue;
    edges_.push_back({from, to, axes, is_local ? -1 : after->elements_sent * size, true});
  }
}

// The axes that differ, and the cuts inside of them.
uint32_t BruteForce::moving(size_t from, size_t to) const {
  const Sharding &a = shardings_[from], &b = shardings_[to];
  uint32_t axes = 0;
  for (size_t axis = 0; axis < a.size(); ++axis) {
    if (a[axis].kind != b[axis].kind || a[axis].dim != b[axis].dim ||
        a[axis].reduction != b[axis].reduction)
      axes |= 1u << axis;
  }
  for (int dim = 0; dim < type_.rank(); ++dim) {
    const AxisList x = cut_list(a, dim), y = cut_list(b, dim);
    bool differs = false;
    for (size_t i = 0; i < std::max(x.size(), y.size()); ++i) {
      differs = differs || i >= x.size() || i >= y.size() || x[i] != y[i];
      if (differs && i < x.size()) axes |= 1u << x[i];
      if (differs && i < y.size()) axes |= 1u << y[i];
    }
  }
  return axes;
}

int64_t BruteForce::least_cost(size_t from, size_t to, const ConversionCosts& costs) const {
  constexpr int64_t kFar = INT64_MAX / 4;
  const uint32_t allowed = moving(from, to);
  std::vector<int64_t> cost(shardings_.size(), kFar);
  cost[from] = 0;
  // Bellman and Ford: repeats until no distance falls.
  for (bool nearer = true; nearer;) {
    nearer = false;
    for (const Edge& edge : edges_) {
      if (cost[edge.from] == kFar || (edge.axes & ~allowed) != 0) continue;
      int64_t length = 0;
      if (edge.is_op) length = edge.bytes < 0 ? costs.launch_ps : costs.latency_ps;
      int64_t slowest = 0;
      for (size_t axis = 0; axis < mesh_.axes.size(); ++axis) {
        if (edge.axes >> axis & 1) slowest = std::max(slowest, costs.link_ps_per_byte[axis]);
      }
      length += std::max(edge.bytes, int64_t{0}) * slowest;
      if (cost[edge.from] + length >= cost[edge.to]) continue;
      cost[edge.to] = cost[edge.from] + length;
      nearer = true;
    }
  }
  return cost[to] == kFar ? -1 : cost[to];
}

}  // namespace gangway::tests
