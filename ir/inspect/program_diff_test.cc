#include "ir/inspect/program_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/build/scan.h"
#include "runtime/base/rng.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Made {
  int64_t data = 2, rows = 8;
  bool relu = false, squares = false;
  AxisPlacements of_w = {};
  const char* state = "w";
};

Program make(const Made& how) {
  ProgramBuilder b("step", Mesh{{{"data", how.data}}});
  const Value w = b.state(how.state, zeros(f32({16, 16})), how.of_w);
  const Value x = b.input("x", f32({how.rows, 16}));
  Value y = dot(x, w);
  y = how.relu ? maximum(y, 0.0) : exp(y);
  if (how.squares) y = square(y);
  b.output("loss", mean(y));
  b.update(w, w * 0.5);
  return b.build();
}

TEST(ProgramDiff, TheSameGraphHasNoDifferenceWhereverItWasWritten) {
  EXPECT_EQ(program_diff(make({}), make({})), "");
}

TEST(ProgramDiff, AddedAndRemovedNodesAndChangedOperandsAreListed) {
  const std::string text = program_diff(make({}), make({.squares = true}));
  EXPECT_THAT(text, HasSubstr("@step: "));
  EXPECT_THAT(text, HasSubstr("  + %4: f32[8, 16] = mul %3, %3  // program_diff_test.cc:"));
  EXPECT_THAT(text, HasSubstr("reads %3 -> %4\n"));
  EXPECT_THAT(text, Not(HasSubstr("  - ")));
  EXPECT_THAT(program_diff(make({.squares = true}), make({})),
              HasSubstr("  - %4: f32[8, 16] = mul %3, %3"));
}

TEST(ProgramDiff, StatesAndSlicesAreComparedByName) {
  const std::string cut = program_diff(make({}), make({.of_w = {{"data", shard(0)}}}));
  EXPECT_THAT(cut, HasSubstr("~ state \"w\": f32[16, 16] -> f32[16, 16] {data: shard(0)}\n"));
  EXPECT_THAT(cut, HasSubstr("  ~ parameter \"w\": f32[16, 16] -> parameter \"w\": f32[16, 16] "
                             "{data: shard(0)}\n"));
  const std::string mesh = program_diff(make({}), make({.data = 4}));
  EXPECT_THAT(mesh,
              HasSubstr("~ slice \"main\" mesh {data: 2} -> slice \"main\" mesh {data: 4}\n"));
  EXPECT_THAT(mesh, Not(HasSubstr("begins")));  // Its first values are the same.
  const std::string renamed = program_diff(make({}), make({.state = "v"}));
  EXPECT_THAT(renamed, HasSubstr("- state \"w\": f32[16, 16]\n"));
  EXPECT_THAT(renamed, HasSubstr("+ state \"v\": f32[16, 16]\n"));
  const std::string larger = program_diff(make({}), make({.rows = 16}));
  EXPECT_THAT(larger, HasSubstr("~ input \"x\": f32[8, 16] -> f32[16, 16]\n"));
  EXPECT_THAT(larger, HasSubstr("a run: "));
}

TEST(ProgramDiff, BodiesAreComparedWhereTheyStandOnce) {
  const auto loop = [](bool squares) {
    ProgramBuilder b("loop");
    const Value x = b.input("x", f32({8}));
    b.output("y", scan(x.builder(), {.length = 4, .carries = x, .name = "layer"},
                       [&](const ScanStep& at) -> Scanned {
                         const Value next = exp(at.carries);
                         return {.carries = squares ? square(next) : next};
                       })
                      .carries);
    return b.build();
  };
  EXPECT_EQ(program_diff(loop(true), loop(true)), "");
  const std::string text = program_diff(loop(false), loop(true));
  EXPECT_THAT(text, HasSubstr("body 0 @layer of @loop: 1 nodes -> 2 nodes\n  + %2: f32[8] = mul "));
  EXPECT_THAT(text, HasSubstr("  ~ result \"carry\": %1 -> %2\n"));
}

// Computed with the textbook's table.
size_t longest_common(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::vector<size_t>> best(a.size() + 1, std::vector<size_t>(b.size() + 1, 0));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) {
      best[i + 1][j + 1] = a[i] == b[j] ? best[i][j] + 1 : std::max(best[i][j + 1], best[i + 1][j]);
    }
  }
  return best[a.size()][b.size()];
}

TEST(Align, FindsALongestCommonSubsequence) {
  Rng rng(tests::test_seed());
  for (int round = 0; round < 500; ++round) {
    const auto random = [&] {
      std::vector<std::string> items(rng.below(12));
      for (std::string& item : items) item = std::string(1, static_cast<char>('a' + rng.below(4)));
      return items;
    };
    const std::vector<std::string> a = random(), b = random();
    std::vector<AlignedPair> pairs;
    ASSERT_TRUE(align(a, b, 100, pairs));
    EXPECT_EQ(pairs.size(), longest_common(a, b));
    for (size_t i = 0; i < pairs.size(); ++i) {
      EXPECT_EQ(a[pairs[i].a], b[pairs[i].b]);
      if (i == 0) continue;
      EXPECT_LT(pairs[i - 1].a, pairs[i].a);
      EXPECT_LT(pairs[i - 1].b, pairs[i].b);
    }
    const size_t edits = a.size() + b.size() - 2 * pairs.size();
    EXPECT_TRUE(align(a, b, edits, pairs));
    EXPECT_TRUE(edits == 0 || !align(a, b, edits - 1, pairs));
  }
}

}  // namespace
}  // namespace gangway
