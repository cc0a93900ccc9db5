// Scatter-add on the emulated device: the op table's cases, and rows that many pieces share.
#include <algorithm>

#include "executor/devices/cuda/kernels/launch_sizes.h"
#include "runtime/base/rng.h"
#include "tests/cuda_kernels/op_kernel.h"
#include "tests/support/seed.h"

namespace gangway::emulated {
namespace {

using cuda::kScatterPiece;
constexpr int64_t kTile = 64;

// Launches the op as the lowering does, but for the size of a tile.
void scatter(OpRun& run) {
  const Type& y = run.out_type();
  int64_t dim = 1;
  for (size_t d = 1; d < y.dims.size(); ++d) dim *= y.dims[d];
  const int64_t rows = y.dims[0], n = run.in_type(0).elements();
  const int64_t pieces = (n + kScatterPiece - 1) / kScatterPiece;
  ASSERT_TRUE(
      run.gpu().driver.fill(run.gpu().at("zeros"), run.out().data, 0, run.out().bytes).ok());
  Argument keys = run.scratch(n * 8), merged = run.scratch(n * 8);
  run.launch("scatter_sort_tiles", (n + kTile - 1) / kTile, kTile / 2, {run.in(0), keys}, n);
  for (int64_t length = kTile; length < n; length *= 2) {
    run.launch("scatter_merge", 3, 32, {OpRun::read(keys), merged}, length, n);
    std::swap(keys, merged);
  }
  const Argument parts = run.scratch(2 * pieces * dim * 8);
  Argument out = run.out();
  out.kind = cuda::AccessKind::kReadWrite;
  run.launch("scatter_pieces" + suffix(y.dtype), pieces, 32,
             {OpRun::read(keys), run.in(1), out, parts}, rows, dim, n);
  run.launch("scatter_join" + suffix(y.dtype), pieces, 32,
             {OpRun::read(keys), OpRun::read(parts), out}, rows, dim, n);
}

TEST(ScatterKernels, HaveTheReferencesResults) { check_op(Op::scatter_add, scatter); }

// Rows get one update, some, or so many that they go through several pieces. Some indices name no
// row.
TEST(ScatterKernels, SumRowsThatGoThroughManyPieces) {
  const uint64_t seed = tests::test_seed();
  Rng rng(seed, 11);
  for (const int64_t n : {1, 31, 33, 64, 65, 300}) {
    for (const int64_t dim : {3, 8}) {
      for (const double common : {0.0, 0.3, 0.9, 1.0}) {
        SCOPED_TRACE(cat(n, " updates of ", dim, ", ", common, " of them of one row"));
        Literal index{{DType::kI32, {n}}, {}}, updates{{DType::kF32, {n, dim}}, {}};
        for (int64_t i = 0; i < n; ++i) {
          const double row = rng.uniform() < common ? 5 : std::floor(rng.uniform() * 40) - 2;
          index.values.push_back(row >= 30 ? 2e9 : row);
        }
        for (int64_t i = 0; i < n * dim; ++i)
          updates.values.push_back(std::floor(rng.uniform() * 64) / 8);
        check_case(Op::scatter_add, {{"rows", int64_t{30}}}, {index, updates}, seed, scatter);
      }
    }
  }
}

}  // namespace
}  // namespace gangway::emulated
