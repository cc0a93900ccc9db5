// Blocks join pieces of reductions: few lines and many, as many shares as pieces and fewer.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/base/rng.h"
#include "tests/emulated/gpu_test.h"
#include "tests/support/seed.h"

namespace gangway::emulated {
namespace {

// Draws whole numbers, so that the order of sums does not matter.
std::vector<float> whole_numbers(int64_t n, Rng& rng) {
  std::vector<float> made(static_cast<size_t>(n));
  for (float& x : made) x = static_cast<float>(static_cast<int>(rng.uniform() * 200) - 100);
  return made;
}

struct JoinCase {
  int64_t pieces, lines;
  int32_t across, shares;
};

void check_join(const JoinCase& of, Rng& rng) {
  SCOPED_TRACE(cat(of.pieces, " pieces of ", of.lines, " lines by ", of.across, " x ", of.shares));
  EmulatedMachine machine({.seed = tests::test_seed()});
  Gpu gpu(machine);
  const std::vector<float> parts = whole_numbers(of.pieces * of.lines, rng);
  const float* in = gpu.upload(parts);
  for (const char* how : {"sum", "max", "min"}) {
    float* out = gpu.buffer<float>(of.lines);
    const auto blocks = static_cast<uint32_t>((of.lines + of.across - 1) / of.across);
    ASSERT_TRUE(gpu.launch(gpu.at("join"), cat("join_", how, "_f32_f32"), {blocks},
                           {static_cast<uint32_t>(of.across * of.shares)},
                           {Gpu::reads(in, of.pieces * of.lines), Gpu::writes(out, of.lines)}, in,
                           out, of.pieces, of.lines, of.across)
                    .ok());
    const std::vector<float> got = gpu.download(out, of.lines);
    for (int64_t line = 0; line < of.lines; ++line) {
      float want = parts[static_cast<size_t>(line)];
      for (int64_t p = 1; p < of.pieces; ++p) {
        const float x = parts[static_cast<size_t>(p * of.lines + line)];
        want = how[0] == 's' ? want + x : how[1] == 'a' ? std::max(want, x) : std::min(want, x);
      }
      ASSERT_EQ(got[static_cast<size_t>(line)], want) << how << " of line " << line;
    }
  }
  EXPECT_EQ(machine.report_text(), "");
}

TEST(JoinedPieces, AreSummedAndComparedWhateverTheShapeOfTheBlock) {
  Rng rng(tests::test_seed(), 5);
  for (const JoinCase& of :
       {JoinCase{1, 1, 1, 32}, JoinCase{300, 1, 1, 256}, JoinCase{300, 3, 1, 32},
        JoinCase{150, 19, 8, 16}, JoinCase{33, 5, 1, 64}, JoinCase{1, 40, 32, 1},
        JoinCase{7, 70, 32, 8}, JoinCase{40, 33, 32, 32}, JoinCase{3, 32, 32, 4}})
    check_join(of, rng);
}

TEST(JoinedPieces, ANanPieceMakesTheResultNan) {
  EmulatedMachine machine;
  Gpu gpu(machine);
  const int64_t pieces = 40, lines = 1;
  const int32_t across = 1;
  std::vector<float> parts(static_cast<size_t>(pieces), 1.0f);
  parts[37] = std::numeric_limits<float>::quiet_NaN();
  const float* in = gpu.upload(parts);
  for (const char* how : {"sum", "max", "min"}) {
    float* out = gpu.buffer<float>(1);
    ASSERT_TRUE(gpu.launch(gpu.at("join"), cat("join_", how, "_f32_f32"), {1}, {64},
                           {Gpu::reads(in, pieces), Gpu::writes(out, 1)}, in, out, pieces, lines,
                           across)
                    .ok());
    EXPECT_TRUE(std::isnan(gpu.download(out, 1)[0])) << how;
  }
  EXPECT_EQ(machine.report_text(), "");
}

}  // namespace
}  // namespace gangway::emulated
