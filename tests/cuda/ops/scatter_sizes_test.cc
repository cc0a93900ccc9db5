// scatter_add of more updates than a block sorts.
#include <gtest/gtest.h>

#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_checks.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

TEST(ScatterSizes, TilesAreMerged) {
  OpDevices devices(emulated::card_maker(2).make(), 1);
  Rng rng(tests::test_seed(), 4);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    for (const int64_t n : {1024, 1025, 2300, 4100}) {
      SCOPED_TRACE(cat(to_string(dtype), " ", n));
      const int64_t rows = n == 2300 ? 7 : 3000, dim = n % 2 == 0 ? 8 : 3;
      const auto make = [=](Rng& from) {
        return std::vector{op_table::random_index({n}, -1, rows + 1, from),
                           op_table::random_literal({dtype, {n, dim}}, op_table::Fill::kAny, from)};
      };
      expect_the_reference(devices, {Op::scatter_add, {{"rows", rows}}, make, nullptr}, dtype, rng);
    }
  }
}

}  // namespace
}  // namespace gangway
