#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "executor/devices/cpu/kernel.h"
#include "executor/kernels/matmul.h"
#include "executor/kernels/move.h"

namespace gangway::cpu {
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

// Dimensions of size 1 may stand anywhere.
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

// How one operand becomes a matrix: as it lies, transposed by the product, or moved first.
struct Side {
  bool transposed = false;
  std::optional<StridedCopy> move;
};

Side side_of(const Type& type, const Ints& plain, const Ints& transposed) {
  if (in_order(plain, type.dims)) return {};
  if (in_order(transposed, type.dims)) return {true, {}};
  return {false, permute_copy(static_cast<int64_t>(size_of(type.dtype)), type.dims, plain)};
}

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Lowered lower_dot(const LowerCall& call) {
  const Attrs& attrs = call.attrs();
  const Type &a = call.in(0), &b = call.in(1);
  const Ints &ab = attrs.ints("lhs_batch"), &bb = attrs.ints("rhs_batch");
  const Ints &ac = attrs.ints("lhs_contract"), &bc = attrs.ints("rhs_contract");
  const Ints af = free_dims(a.rank(), ab, ac), bf = free_dims(b.rank(), bb, bc);
  const Side lhs = side_of(a, joined(ab, af, ac), joined(ab, ac, af));
  const Side rhs = side_of(b, joined(bb, bc, bf), joined(bb, bf, bc));
  const MatmulDesc desc{.a = a.dtype,
                        .b = b.dtype,
                        .c = call.out().dtype,
                        .batch = product(a.dims, ab),
                        .m = product(a.dims, af),
                        .n = product(b.dims, bf),
                        .k = product(a.dims, ac),
                        .transpose_a = lhs.transposed,
                        .transpose_b = rhs.transposed};
  auto matmul = std::make_shared<const Matmul>(desc);
  const int64_t moved_a = lhs.move ? aligned(a.bytes()) : 0;
  const int64_t moved_b = rhs.move ? aligned(b.bytes()) : 0;
  auto kernel = [matmul, lhs, rhs, moved_a, moved_b](const KernelArgs& args) {
    const void *x = args.in(0), *y = args.in(1);
    auto* scratch = static_cast<std::byte*>(args.scratch_data());
    if (lhs.move) {
      strided_copy(args.par, *lhs.move, x, scratch);
      x = scratch;
    }
    if (rhs.move) {
      strided_copy(args.par, *rhs.move, y, scratch + moved_a);
      y = scratch + moved_a;
    }
    matmul->run(args.par, x, y, args.out(0), scratch + moved_a + moved_b);
  };
  return {std::move(kernel),
          moved_a + moved_b + static_cast<int64_t>(matmul->scratch_bytes(call.threads))};
}

}  // namespace gangway::cpu
