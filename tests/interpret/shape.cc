// References of the ops that move elements.
#include "tests/interpret/reference.h"

namespace gangway::internal {
namespace {

void constant(const EvaluateCall& e) { e.y().assign(e.y().size(), e.attrs().real("value")); }

void iota(const EvaluateCall& e) {
  size_t axis = as_size(e.attrs().integer("axis"));
  each(e.out_dims(),
       [&](const Dims& index, size_t at) { e.y()[at] = static_cast<double>(index[axis]); });
}

void table(const EvaluateCall& e) {
  const std::vector<int64_t>& values = e.attrs().ints("values");
  e.y().assign(values.begin(), values.end());
}

void broadcast(const EvaluateCall& e) {
  const std::vector<int64_t>& map = e.attrs().ints("map");
  each(e.out_dims(), [&](const Dims& index, size_t at) {
    Dims from;
    for (size_t i = 0; i < map.size(); ++i)
      from.push_back(e.dims()[i] == 1 ? 0 : index[as_size(map[i])]);
    e.y()[at] = e.x()[position(e.dims(), from)];
  });
}

void reshape(const EvaluateCall& e) { e.y() = e.x(); }

void transpose(const EvaluateCall& e) {
  const std::vector<int64_t>& permutation = e.attrs().ints("permutation");
  each(e.out_dims(), [&](const Dims& index, size_t at) {
    Dims from(index.size());
    for (size_t i = 0; i < index.size(); ++i) from[as_size(permutation[i])] = index[i];
    e.y()[at] = e.x()[position(e.dims(), from)];
  });
}

void slice(const EvaluateCall& e) {
  each(e.out_dims(), [&](const Dims& index, size_t at) {
    Dims from(index.size());
    for (size_t d = 0; d < index.size(); ++d)
      from[d] = e.attrs().ints("starts")[d] + index[d] * e.attrs().ints("strides")[d];
    e.y()[at] = e.x()[position(e.dims(), from)];
  });
}

void concat(const EvaluateCall& e) {
  e.out[0] = join(e.in, static_cast<int>(e.attrs().integer("axis")));
}

void pad(const EvaluateCall& e) {
  e.y().assign(e.y().size(), e.attrs().real("value"));
  each(e.dims(), [&](const Dims& index, size_t at) {
    Dims to(index.size());
    for (size_t d = 0; d < index.size(); ++d) to[d] = index[d] + e.attrs().ints("low")[d];
    e.y()[position(e.out_dims(), to)] = e.x()[at];
  });
}

}  // namespace

std::vector<ReferenceRow> shape_references() {
  return {{Op::constant, constant},   {Op::iota, iota},
          {Op::broadcast, broadcast}, {Op::reshape, reshape},
          {Op::transpose, transpose}, {Op::slice, slice},
          {Op::concat, concat},       {Op::pad, pad},
          {Op::table, table}};
}

}  // namespace gangway::internal
