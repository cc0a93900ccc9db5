#include "executor/devices/lower/dot_plan.h"

#include <algorithm>

namespace gangway {
namespace {

using Ints = std::vector<int64_t>;

Ints free_dims(int rank, const Ints& batch, const Ints& contract) {
  Ints free;
  for (int64_t d = 0; d < rank; ++d) {
    if (!std::count(batch.begin(), batch.end(), d) &&
        !std::count(contract.begin(), contract.end(), d))
      free.push_back(d);
  }
  return free;
}

Ints joined(const Ints& a, const Ints& b, const Ints& c) {
  Ints all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

// Whether the dimensions ascend; those of size 1 may be anywhere.
bool in_order(const Ints& order, const Dims& dims) {
  int64_t last = -1;
  for (int64_t d : order) {
    if (dims[static_cast<size_t>(d)] == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

int64_t product(const Dims& dims, const Ints& which) {
  int64_t n = 1;
  for (int64_t d : which) n *= dims[static_cast<size_t>(d)];
  return n;
}

// The conversion of an operand to a matrix: none, transposed by the product, or moved first.
struct Side {
  bool transposed = false;
  std::optional<StridedCopy> move;
};

Side side_of(const Type& type, const Ints& plain, const Ints& transposed) {
  if (in_order(plain, type.dims)) return {};
  if (in_order(transposed, type.dims)) return {true, {}};
  return {false, permute_copy(static_cast<int64_t>(size_of(type.dtype)), type.dims, plain)};
}

}  // namespace

DotPlan plan_dot(const Attrs& attrs, const Type& a, const Type& b, DType out) {
  const Ints &ab = attrs.ints("lhs_batch"), &bb = attrs.ints("rhs_batch");
  const Ints &ac = attrs.ints("lhs_contract"), &bc = attrs.ints("rhs_contract");
  const Ints af = free_dims(a.rank(), ab, ac), bf = free_dims(b.rank(), bb, bc);
  const Side lhs = side_of(a, joined(ab, af, ac), joined(ab, ac, af));
  const Side rhs = side_of(b, joined(bb, bc, bf), joined(bb, bf, bc));
  return {{.a = a.dtype,
           .b = b.dtype,
           .c = out,
           .batch = product(a.dims, ab),
           .m = product(a.dims, af),
           .n = product(b.dims, bf),
           .k = product(a.dims, ac),
           .transpose_a = lhs.transposed,
           .transpose_b = rhs.transposed},
          lhs.move,
          rhs.move};
}

}  // namespace gangway
