// References of the reductions, the running sum and dot.
#include <algorithm>
#include <limits>

#include "tests/interpret/reference.h"

namespace gangway::internal {
namespace {

bool contains(const std::vector<int64_t>& dims, size_t d) {
  return std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
}

// Calls visit(position in the operand, position in the result).
template <class Visit>
void fold(const EvaluateCall& e, const std::vector<int64_t>& axes, Visit visit) {
  each(e.dims(), [&](const Dims& index, size_t at) {
    Dims to;
    for (size_t d = 0; d < index.size(); ++d) {
      if (!contains(axes, d)) to.push_back(index[d]);
    }
    visit(index, at, position(e.out_dims(), to));
  });
}

void reduce_sum(const EvaluateCall& e) {
  fold(e, e.attrs().ints("axes"),
       [&](const Dims&, size_t from, size_t to) { e.y()[to] += e.x()[from]; });
  if (e.in[0].type.dtype != DType::kI32) return;
  for (double& y : e.y()) y = wrap_i32(y);
}

void reduce_max(const EvaluateCall& e) {
  e.y().assign(e.y().size(), -std::numeric_limits<double>::infinity());
  fold(e, e.attrs().ints("axes"), [&](const Dims&, size_t from, size_t to) {
    if (above(e.x()[from], e.y()[to])) e.y()[to] = e.x()[from];
  });
}

void reduce_min(const EvaluateCall& e) {
  e.y().assign(e.y().size(), std::numeric_limits<double>::infinity());
  fold(e, e.attrs().ints("axes"), [&](const Dims&, size_t from, size_t to) {
    double x = e.x()[from], &y = e.y()[to];
    if (x != x || x < y) y = x;
  });
}

void argmax(const EvaluateCall& e) {
  int64_t axis = e.attrs().integer("axis");
  Doubles best(e.y().size());
  fold(e, {axis}, [&](const Dims& index, size_t from, size_t to) {
    int64_t i = index[as_size(axis)];
    if (i != 0 && !above(e.x()[from], best[to])) return;
    best[to] = e.x()[from];
    e.y()[to] = static_cast<double>(i);
  });
}

void cumsum(const EvaluateCall& e) {
  size_t axis = as_size(e.attrs().integer("axis"));
  each(e.dims(), [&](const Dims& index, size_t at) {
    double before = 0;
    if (index[axis] > 0) {
      Dims previous = index;
      --previous[axis];
      before = e.y()[position(e.dims(), previous)];
    }
    e.y()[at] = before + e.x()[at];
  });
  if (e.in[0].type.dtype != DType::kI32) return;
  for (double& y : e.y()) y = wrap_i32(y);
}

// The sizes of some dimensions.
Dims sizes(const Dims& dims, const std::vector<int64_t>& which) {
  Dims result;
  for (int64_t d : which) result.push_back(dims[as_size(d)]);
  return result;
}

std::vector<int64_t> others(size_t rank, const std::vector<int64_t>& a,
                            const std::vector<int64_t>& b) {
  std::vector<int64_t> result;
  for (size_t d = 0; d < rank; ++d) {
    if (!contains(a, d) && !contains(b, d)) result.push_back(static_cast<int64_t>(d));
  }
  return result;
}

void dot(const EvaluateCall& e) {
  auto get = [&e](const char* name) { return e.attrs().ints(name); };
  std::vector<int64_t> lhs_batch = get("lhs_batch"), rhs_batch = get("rhs_batch");
  std::vector<int64_t> lhs_contract = get("lhs_contract"), rhs_contract = get("rhs_contract");
  std::vector<int64_t> lhs_free = others(e.dims(0).size(), lhs_batch, lhs_contract);
  std::vector<int64_t> rhs_free = others(e.dims(1).size(), rhs_batch, rhs_contract);
  Dims contracted = sizes(e.dims(0), lhs_contract);
  each(e.out_dims(), [&](const Dims& index, size_t at) {
    Dims a(e.dims(0).size()), b(e.dims(1).size());
    size_t next = 0;
    for (size_t i = 0; i < lhs_batch.size(); ++i, ++next)
      a[as_size(lhs_batch[i])] = b[as_size(rhs_batch[i])] = index[next];
    for (int64_t d : lhs_free) a[as_size(d)] = index[next++];
    for (int64_t d : rhs_free) b[as_size(d)] = index[next++];
    each(contracted, [&](const Dims& k, size_t) {
      for (size_t i = 0; i < k.size(); ++i)
        a[as_size(lhs_contract[i])] = b[as_size(rhs_contract[i])] = k[i];
      e.y()[at] += e.x(0)[position(e.dims(0), a)] * e.x(1)[position(e.dims(1), b)];
    });
  });
}

}  // namespace

std::vector<ReferenceRow> reduce_references() {
  return {{Op::reduce_sum, reduce_sum}, {Op::reduce_max, reduce_max}, {Op::reduce_min, reduce_min},
          {Op::argmax, argmax},         {Op::cumsum, cumsum},         {Op::dot, dot}};
}

}  // namespace gangway::internal
