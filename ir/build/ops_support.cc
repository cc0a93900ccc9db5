#include "ir/build/ops_support.h"

#include <algorithm>

#include "ir/build/builder.h"
#include "runtime/base/error.h"

namespace gangway::internal {

void refuse_at(Loc loc, std::string message) {
  throw Error(ErrorKind::kInvalid, std::move(message), {.at = to_string(loc)});
}

int64_t axis_of(Value x, int64_t axis, std::string_view op, Loc loc) {
  int64_t from_start = axis < 0 ? axis + x.rank() : axis;
  if (from_start < 0 || from_start >= x.rank())
    refuse_at(loc, cat(op, ": axis ", axis, " is out of range for ", to_string(x.type())));
  return from_start;
}

std::vector<int64_t> axes_of(Value x, std::vector<int64_t> axes, std::string_view op, Loc loc) {
  if (axes.empty()) {
    for (int64_t d = 0; d < x.rank(); ++d) axes.push_back(d);
    return axes;
  }
  for (int64_t& axis : axes) axis = axis_of(x, axis, op, loc);
  std::sort(axes.begin(), axes.end());
  return axes;
}

Loc loc_of(const Operand& a, const Operand& b) { return a.loc.known() ? a.loc : b.loc; }

Dims broadcast_dims(Op op, const Type& a, const Type& b, Loc loc) {
  size_t rank = std::max(a.dims.size(), b.dims.size());
  Dims dims(rank);
  for (size_t back = 1; back <= rank; ++back) {
    int64_t m = back <= a.dims.size() ? a.dims[a.dims.size() - back] : 1;
    int64_t n = back <= b.dims.size() ? b.dims[b.dims.size() - back] : 1;
    if (m != n && m != 1 && n != 1) {
      refuse_at(loc, cat(to_string(op), ": shapes do not broadcast: lhs is ", to_string(a),
                         ", rhs is ", to_string(b), "; ", m, " and ", n, " differ"));
    }
    dims[rank - back] = m == 1 ? n : m;
  }
  return dims;
}

std::pair<Value, Value> operands(Op op, const Operand& a, const Operand& b, Loc loc) {
  if (a.value.empty() && b.value.empty())
    refuse_at(loc, cat(to_string(op), ": both operands are empty"));
  auto filled = [&](const Operand& number, const Value& like) {
    return like.builder().constant(like.type(), number.number, loc);
  };
  if (a.value.empty()) return {filled(a, b.value), b.value};
  if (b.value.empty()) return {a.value, filled(b, a.value)};
  if (a.value.type().dims == b.value.type().dims) return {a.value, b.value};
  Dims dims = broadcast_dims(op, a.value.type(), b.value.type(), loc);
  return {broadcast_to(a.value, dims, loc), broadcast_to(b.value, dims, loc)};
}

Value binary(Op op, const Operand& a, const Operand& b) {
  Loc loc = loc_of(a, b);
  auto [x, y] = operands(op, a, b, loc);
  return x.builder().emit1(op, {x, y}, {}, loc);
}

}  // namespace gangway::internal
