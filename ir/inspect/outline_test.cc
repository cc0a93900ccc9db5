#include "ir/inspect/outline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/build/scan.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Four layers of 16 x 16 as a scan, with two slots of an optimizer's.
Program training() {
  ProgramBuilder b("train_step", Mesh{{{"data", 2}}});
  const Value w = b.state("params.w", zeros(f32({16, 16})));
  const Value embed = b.state("params.embed", zeros(f32({32, 16})));
  for (const char* slot : {"adamw.m", "adamw.v"}) {
    for (const char* of : {"w", "embed"}) {
      const Value state = b.state(cat(slot, ".", of), zeros(f32({16, 16})));
      b.update(state, state * 0.5);
    }
  }
  const Value x = b.input("x", f32({8, 16}));
  b.update(w, w + mean(dot(x, w)));
  b.output("loss", mean(dot(x, w)) + mean(embed));
  return b.build();
}

TEST(Outline, FoldsStatesAndLeavesOutHowTheyBegin) {
  const std::string text = outline(training());
  EXPECT_THAT(text, HasSubstr("program @train_step\n  slice \"main\" mesh {data: 2}\n"
                              "  6 states, 7.0 KiB\n"
                              "    adamw.m.*: 2 states, 2.0 KiB\n"
                              "    adamw.v.*: 2 states, 2.0 KiB\n"
                              "    params.*: 2 states, 3.0 KiB\n"));
  EXPECT_THAT(text, HasSubstr(" = input \"x\" -> f32[8, 16]"));
  EXPECT_THAT(text, HasSubstr("updates 5 states"));
  EXPECT_THAT(text, Not(HasSubstr("init")));
}

TEST(Outline, ShowsTheNodesThatAreAskedFor) {
  const std::string text = outline(training(), {.nodes = {"adamw.m", "loss"}});
  EXPECT_THAT(text, HasSubstr("  2 states, 2.0 KiB\n    adamw.m.w: f32[16, 16]  // "));
  EXPECT_THAT(text, HasSubstr("    adamw.m.embed: f32[16, 16]  // "));
  EXPECT_THAT(text, HasSubstr("output \"loss\""));
  EXPECT_THAT(text, Not(HasSubstr("params")));
  EXPECT_THAT(text, Not(HasSubstr("call")));
  EXPECT_THAT(error_text_of([] { outline(training(), {.slices = {"side"}}); }),
              HasSubstr("invalid: graph: program \"train_step\" has no slice \"side\": it has "
                        "main"));
}

TEST(Outline, FunctionsAreThoseOfCallsAlone) {
  const std::string text = functions_text(training());
  EXPECT_THAT(text, ::testing::StartsWith("func @train_step("));
  EXPECT_THAT(text, Not(HasSubstr("@init")));
  const std::string products = functions_text(training(), {.ops = {"dot"}});
  EXPECT_THAT(products, HasSubstr(" = dot "));
  EXPECT_THAT(products, Not(HasSubstr(" = mul ")));
  EXPECT_EQ(functions_text(training(), {.ops = {"softmax"}}), "");
  EXPECT_THAT(error_text_of([] { functions_text(training(), {.ops = {"matmul"}}); }),
              HasSubstr("graph: there is no op \"matmul\""));
}

// A loop counts for each time that it runs, and is written once.
TEST(Outline, LoopsAreWrittenOnceWithTheirNumberAndCountForEachTime) {
  ProgramBuilder b("loop");
  const Value x = b.input("x", f32({8, 16})), w = b.input("w", f32({4, 16, 16}));
  const Value y =
      scan(x.builder(), {.length = 4, .carries = x, .stacked = w, .name = "layer"},
           [](const ScanStep& at) -> Scanned { return {.carries = dot(at.carries, at.slices)}; })
          .carries;
  b.output("y", y);
  const Program program = b.build();
  EXPECT_THAT(outline(program), HasSubstr("      scan of 4: 1 node, 4.10 kFLOP, "));
  EXPECT_EQ(totals_of(program).flops, 4 * 2 * 8 * 16 * 16);
  const std::string text = functions_text(program);
  EXPECT_EQ(text.find(" = dot "), text.rfind(" = dot "));
}

TEST(Outline, TotalsAreThoseOfARun) {
  const ProgramTotals totals = totals_of(training());
  EXPECT_EQ(totals.states, 6);
  EXPECT_EQ(totals.state_bytes, 7 << 10);
  EXPECT_GE(totals.flops, 2 * 2 * 8 * 16 * 16);
  EXPECT_EQ(to_text({.states = 1, .state_bytes = 16, .flops = 950, .bytes = 2048}),
            "950 FLOP, 2.0 KiB read and written; 1 state of 16 B");
}

}  // namespace
}  // namespace gangway
