// References of the ops whose element positions are data.
#include <algorithm>
#include <numeric>

#include "tests/interpret/reference.h"

namespace gangway::internal {
namespace {

void take(const EvaluateCall& e) {
  auto rows = static_cast<double>(e.dims()[0]);
  if (rows == 0) return;
  size_t width = e.x().size() / as_size(e.dims()[0]);
  for (size_t i = 0; i < e.x(1).size(); ++i) {
    double row = e.x(1)[i];
    if (row < 0 || row >= rows) continue;
    for (size_t j = 0; j < width; ++j)
      e.y()[i * width + j] = e.x()[static_cast<size_t>(row) * width + j];
  }
}

void scatter_add(const EvaluateCall& e) {
  auto rows = static_cast<double>(e.attrs().integer("rows"));
  if (e.x(0).empty()) return;
  size_t width = e.x(1).size() / e.x(0).size();
  for (size_t i = 0; i < e.x(0).size(); ++i) {
    double row = e.x(0)[i];
    if (row < 0 || row >= rows) continue;
    for (size_t j = 0; j < width; ++j)
      e.y()[static_cast<size_t>(row) * width + j] += e.x(1)[i * width + j];
  }
}

// The start of the window, clamped so that it fits.
int64_t start_of(double start, int64_t whole, int64_t window) {
  return std::clamp(static_cast<int64_t>(start), int64_t{0}, whole - window);
}

void dynamic_slice(const EvaluateCall& e) {
  size_t axis = as_size(e.attrs().integer("axis"));
  int64_t start = start_of(e.x(1)[0], e.dims()[axis], e.out_dims()[axis]);
  each(e.out_dims(), [&](const Dims& index, size_t at) {
    Dims from = index;
    from[axis] += start;
    e.y()[at] = e.x()[position(e.dims(), from)];
  });
}

void dynamic_update(const EvaluateCall& e) {
  size_t axis = as_size(e.attrs().integer("axis"));
  int64_t start = start_of(e.x(2)[0], e.dims()[axis], e.dims(1)[axis]);
  e.y() = e.x();
  each(e.dims(1), [&](const Dims& index, size_t at) {
    Dims to = index;
    to[axis] += start;
    e.y()[position(e.dims(), to)] = e.x(1)[at];
  });
}

// The first columns of each row of x, in the given order of its elements.
template <class Before>
void ordered(const EvaluateCall& e, Before before) {
  Rows in(e.in[0]);
  size_t keep = as_size(e.out_dims().back());
  for (size_t row = 0; row < in.rows; ++row) {
    const double* x = e.x().data() + row * in.width;
    std::vector<size_t> order(in.width);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return before(x[a], x[b]); });
    for (size_t j = 0; j < keep; ++j) {
      e.y(0)[row * keep + j] = x[order[j]];
      e.y(1)[row * keep + j] = static_cast<double>(order[j]);
    }
  }
}

void top_k(const EvaluateCall& e) { ordered(e, above); }
void sort(const EvaluateCall& e) {
  ordered(e, [](double a, double b) { return above(b, a); });
}

}  // namespace

std::vector<ReferenceRow> index_references() {
  return {{Op::take, take},
          {Op::scatter_add, scatter_add},
          {Op::dynamic_slice, dynamic_slice},
          {Op::dynamic_update, dynamic_update},
          {Op::top_k, top_k},
          {Op::sort, sort}};
}

}  // namespace gangway::internal
