#include "tests/interpret/collective.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/plan/rows_overflow.h"
#include "ir/types/axis_list.h"

namespace gangway::internal {
namespace {

double reduce_two(const std::string& reduction, double a, double b) {
  if (reduction == "max") return above(a, b) ? a : b;
  if (reduction == "min") return std::isnan(a) || a < b ? a : b;
  return a + b;
}

// Element `at` of the reduction of an operand over all members, as member `to` computes it.
double reduced(GroupCall& g, size_t to, size_t operand, size_t at) {
  double total = g.read(to, 0, operand, at);
  for (size_t m = 1; m < g.members(); ++m)
    total = reduce_two(g.attrs().text("reduction"), total, g.read(to, m, operand, at));
  const DType dtype = g.call.inputs[operand].dtype;
  return g.options.round ? rounded(dtype, total) : total;
}

// Each member reduces its share of the elements and sends the result to all others.
void all_reduce(GroupCall& g) {
  for (size_t operand = 0; operand < g.call.inputs.size(); ++operand) {
    const auto elements = as_size(g.call.inputs[operand].elements());
    for (size_t at = 0; at < elements; ++at) {
      const size_t owner = at * g.members() / elements;
      const double result = reduced(g, owner, operand, at);
      for (size_t m = 0; m < g.members(); ++m) {
        g.count(m, owner, g.call.inputs[operand].dtype);
        g.out[m][operand].values[at] = result;
      }
    }
  }
}

void all_gather(GroupCall& g) {
  const size_t dim = as_size(g.attrs().integer("dim"));
  const int64_t part = g.dims()[dim];
  for (size_t m = 0; m < g.members(); ++m) {
    each(g.out[m][0].type.dims, [&](Dims index, size_t at) {
      const size_t from = as_size(index[dim] / part);
      index[dim] %= part;
      g.out[m][0].values[at] = g.read(m, from, 0, position(g.dims(), index));
    });
  }
}

// Calls visit(index in the whole, position in the part) for the elements that member m has of a
// tensor that is cut along `dim` in parts of one size, but not for padding.
template <class Visit>
void each_of_part(GroupCall& g, size_t m, size_t dim, Visit visit) {
  const Dims& part = g.out[m][0].type.dims;
  each(part, [&](Dims index, size_t at) {
    index[dim] += static_cast<int64_t>(m) * part[dim];
    if (index[dim] < g.dims()[dim]) visit(index, at);
  });
}

void reduce_scatter(GroupCall& g) {
  const size_t dim = as_size(g.attrs().integer("dim"));
  for (size_t m = 0; m < g.members(); ++m) {
    each_of_part(g, m, dim, [&](const Dims& index, size_t at) {
      g.out[m][0].values[at] = reduced(g, m, 0, position(g.dims(), index));
    });
  }
}

void all_to_all(GroupCall& g) {
  const size_t split = as_size(g.attrs().integer("split_dim"));
  const size_t concat = as_size(g.attrs().integer("concat_dim"));
  const int64_t rows = g.dims()[concat];
  for (size_t m = 0; m < g.members(); ++m) {
    each_of_part(g, m, split, [&](Dims index, size_t at) {
      const size_t from = as_size(index[concat] / rows);
      index[concat] %= rows;
      g.out[m][0].values[at] = g.read(m, from, 0, position(g.dims(), index));
    });
  }
}

// The number of rows that each member sends to each. Sizes are clamped to [0, rows that are left].
std::vector<std::vector<int64_t>> rows_sent(const GroupCall& g) {
  std::vector<std::vector<int64_t>> rows(g.members());
  for (size_t m = 0; m < g.members(); ++m) {
    int64_t left = g.dims()[0];
    for (double size : g.in[m][1]->values) {
      rows[m].push_back(std::clamp<int64_t>(static_cast<int64_t>(size), 0, left));
      left -= rows[m].back();
    }
  }
  return rows;
}

void ragged_all_to_all(GroupCall& g) {
  const std::vector<std::vector<int64_t>> rows = rows_sent(g);
  const size_t bound = as_size(g.attrs().integer("bound"));
  const Dims row(g.dims().begin() + 1, g.dims().end());
  const size_t width = as_size(Type{DType::kF64, row}.elements());
  std::vector<size_t> next(g.members(), 0);  // Each sender's first row that is not sent yet.
  for (size_t m = 0; m < g.members(); ++m) {
    size_t filled = 0;
    for (size_t from = 0; from < g.members(); ++from) {
      const size_t count = as_size(rows[from][m]);
      g.count(m, from, DType::kI32);
      g.out[m][1].values[from] = static_cast<double>(count);
      const size_t taken = std::min(count, bound - filled);
      for (size_t i = 0; i < taken * width; ++i)
        g.out[m][0].values[filled * width + i] = g.read(m, from, 0, next[from] * width + i);
      filled += taken;
      next[from] += count;
    }
    const double all = std::accumulate(g.out[m][1].values.begin(), g.out[m][1].values.end(), 0.0);
    if (g.attrs().flag("must_fit") && all > static_cast<double>(bound))
      throw rows_overflow(static_cast<int64_t>(all), static_cast<int64_t>(bound));
  }
}

void move(GroupCall& g, size_t to, size_t from) {
  for (size_t at = 0; at < g.out[to][0].values.size(); ++at)
    g.out[to][0].values[at] = g.read(to, from, 0, at);
}

void permute(GroupCall& g) {
  const std::vector<int> to = axes_of(g.mesh, g.attrs().text("to"));
  const auto members = static_cast<int64_t>(g.members());
  for (size_t m = 0; m < g.members(); ++m) {
    const int64_t receiver =
        ((static_cast<int64_t>(m) + g.attrs().integer("shift")) % members + members) % members;
    for (size_t other = 0; other < g.members(); ++other) {
      if (member_along(g.mesh, to, g.devices[other]) == receiver) move(g, other, m);
    }
  }
}

// Passes values on along a chain that begins at the root.
void collective_broadcast(GroupCall& g) {
  const size_t root = as_size(g.attrs().integer("root")), members = g.members();
  for (size_t step = 0; step < members; ++step) {
    const size_t to = (root + step) % members;
    g.out[to][0].values = g.in[root][0]->values;
    if (step == 0) continue;
    for (size_t at = 0; at < g.out[to][0].values.size(); ++at)
      g.count(to, (to + members - 1) % members, g.call.inputs[0].dtype);
  }
}

void axis_index(GroupCall& g) {
  for (size_t m = 0; m < g.members(); ++m) g.out[m][0].values[0] = static_cast<double>(m);
}

void keep_first(GroupCall& g) { move(g, 0, 0); }

void shard_slice(GroupCall& g) {
  for (size_t m = 0; m < g.members(); ++m) {
    each_of_part(g, m, as_size(g.attrs().integer("dim")), [&](const Dims& index, size_t at) {
      g.out[m][0].values[at] = g.read(m, m, 0, position(g.dims(), index));
    });
  }
}

}  // namespace

GroupReference group_reference_of(Op op) {
  struct Row {
    Op op;
    GroupReference reference;
  };
  constexpr Row kTable[] = {
      {Op::all_reduce, all_reduce}, {Op::shard_slice, shard_slice},
      {Op::all_gather, all_gather}, {Op::reduce_scatter, reduce_scatter},
      {Op::all_to_all, all_to_all}, {Op::ragged_all_to_all, ragged_all_to_all},
      {Op::permute, permute},       {Op::collective_broadcast, collective_broadcast},
      {Op::axis_index, axis_index}, {Op::keep_first, keep_first}};
  const auto* found = std::ranges::find(kTable, op, &Row::op);
  return found == std::end(kTable) ? nullptr : found->reference;
}

}  // namespace gangway::internal
