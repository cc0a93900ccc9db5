#include "controller/plans/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/plan/plan_check.h"
#include "ir/plan/plan_text.h"
#include "ir/plan/plan_wire.h"

namespace gangway {
namespace {

using testing::HasSubstr;

TEST(LowerTest, StateUpdatesCommitBehindTheGate) {
  const Mesh mesh{{{"data", 4}}};
  ProgramBuilder b("step", mesh);
  Value w = b.state("w", zeros(f32({8})));
  Value x = b.input("x", f32({16, 8}), {{"data", shard(0)}});
  Value next = w + sum(x, {0});
  b.update(w, next);
  b.output("loss", sum(next, {0}));
  b.require_finite("loss");
  CompileCache cache;
  const Program program = b.build();
  const LowerOptions options{.slices = {{{0, 0, 2}, {1, 0, 2}}}, .hosts = {"host-0", "host-1"}};
  const std::string text = to_text(lower(program, options, cache));
  EXPECT_THAT(text, HasSubstr("plan @step over host-0 host-1, 2 runs in flight\n"
                              "  slice 0 {data: 4} on host-0:0-1 host-1:0-1\n"));
  EXPECT_THAT(text, HasSubstr("%0 state \"w\": f32[8] {}\n"));
  EXPECT_THAT(text, HasSubstr("%1 input \"x\": f32[16, 8] {data: shard(0)} -> f32[4, 8]\n"));
  EXPECT_THAT(text, HasSubstr("%2 output \"loss\": f32[] {}\n"));
  EXPECT_THAT(text, HasSubstr("0: call main(%0, %1) ["));
  EXPECT_THAT(text, HasSubstr("-> %0, %2"));
  EXPECT_THAT(text, HasSubstr("  1: gate (%2)\n  2: commit 0"));
  lower(program, options, cache);
  EXPECT_GE(cache.counts().hits, 2u);
}

TEST(LowerTest, AProgramThatUpdatesNothingHasAGateIfItGuardsAnOutput) {
  for (const bool is_guarded : {true, false}) {
    ProgramBuilder b("look", Mesh{{{"data", 4}}});
    b.output("loss", sum(b.input("x", f32({16}), {{"data", shard(0)}})));
    if (is_guarded) b.require_finite("loss");
    CompileCache cache;
    const Plan plan = lower(b.build(), {.slices = {{{0, 0, 4}}}, .hosts = {"host-0"}}, cache);
    EXPECT_EQ(plan.nodes.back().kind, is_guarded ? PlanNodeKind::kGate : PlanNodeKind::kCall);
    EXPECT_EQ(plan.nodes.size(), is_guarded ? 2u : 1u);
    EXPECT_FALSE(has_commit(plan));
  }
}

TEST(LowerTest, APlanHoldsTheNumericsThatItsProgramChose) {
  ProgramBuilder b("step", Mesh{});
  const Value x = b.input("x", f32({8, 8}));
  b.output("y", dot(x, x));
  b.numerics({.deterministic = false, .allow_tf32 = true});
  CompileCache cache;
  const LowerOptions options{.slices = {{{0, 0, 1}}}, .hosts = {"host-0"}};
  Program program = b.build();
  const Plan plan = plan_from_wire(to_wire(lower(program, options, cache)));
  ASSERT_EQ(plan.functions.size(), 1u);
  EXPECT_EQ(plan.functions[0].numerics, program.numerics);
  EXPECT_THAT(to_text(plan), HasSubstr(" deterministic false allow_tf32 true]"));
  program.numerics = {};
  EXPECT_EQ(lower(program, options, cache).functions[0].numerics, Numerics());
  EXPECT_GE(cache.counts().hits, 1u);
}

TEST(LowerTest, ATransferBecomesASendAndAReceive) {
  ProgramBuilder b("two slices", Mesh{});
  b.slice("second", {});
  Builder next("next");
  next.result("y", next.parameter("x", f32()) + 1.0);
  const auto function = std::make_shared<const Function>(next.build());
  ProgramValue value = b.call(0, "first", function, {b.input_on(0, "x", f32())})[0];
  b.output_of("y", b.call(1, "last", function, {b.transfer(value, 1)})[0]);
  CompileCache cache;
  const LowerOptions options{.slices = {{{0, 0, 1}}, {{0, 1, 1}}}, .hosts = {"host-0"}};
  const Plan plan = lower(b.build(), options, cache);
  EXPECT_NO_THROW(require_valid(plan));
  EXPECT_THAT(to_text(plan), HasSubstr("(%1) to 2  // lower_test.cc:"));
  EXPECT_THAT(to_text(plan), HasSubstr("() from 1 -> %2 on slice 1  // lower_test.cc:"));
}

TEST(LowerTest, ATransferKeepsEveryPartOnItsDevice) {
  const auto lowered = [](const AxisPlacements& from, const AxisPlacements& to) {
    const Mesh mesh{{{"a", 2}, {"b", 2}}};
    ProgramBuilder b("two slices", mesh);
    b.slice("second", mesh);
    Builder f("f", mesh);
    f.result("y", f.parameter("x", f32({8}), to) + 1.0);
    const auto function = std::make_shared<const Function>(f.build());
    const ProgramValue moved = b.transfer(b.input_on(0, "x", f32({8}), from), 1);
    b.call(1, "last", function, {moved});
    CompileCache cache;
    const LowerOptions options{.slices = {{{0, 0, 4}}, {{0, 4, 4}}}, .hosts = {"host-0"}};
    try {
      lower(b.build(), options, cache);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("lowered");
  };
  const AxisPlacements on_a = {{"a", shard(0)}}, on_b = {{"b", shard(0)}};
  EXPECT_EQ(lowered(on_a, {{"a", shard(0, 1)}}), "lowered") << "one layout, spelled in two ways";
  EXPECT_THAT(lowered(on_a, on_b), HasSubstr("re-shards on the way"))
      << "of one size, but other devices hold the halves";
  EXPECT_THAT(lowered({{"a", shard(0)}, {"b", shard(0)}}, {{"a", shard(0, 1)}, {"b", shard(0)}}),
              HasSubstr("re-shards on the way"));
}

TEST(LowerTest, APartIsGatheredFirstAlongTheAxisWhoseDevicesLieOnSeveralHosts) {
  const Mesh mesh{{{"a", 2}, {"b", 2}}};
  ProgramBuilder b("step", mesh);
  const Value x = b.input("x", f32({8, 16}), {{"a", shard(0)}, {"b", shard(1)}});
  b.output("y", b.shard(exp(x), {{"a", replicate()}, {"b", replicate()}}));
  const Program program = b.build();
  CompileCache cache;
  const auto gathered_along = [&](std::vector<PlanRange> ranges) {
    const LowerOptions options{.slices = {std::move(ranges)}, .hosts = {"host-0", "host-1"}};
    const Plan plan = lower(program, options, cache);
    std::string axes;
    for (const Node& node : plan.functions.at(0).function->nodes) {
      if (node.op == Op::all_gather) axes += node.attrs.text("axes");
    }
    return axes;
  };
  EXPECT_EQ(gathered_along({{0, 0, 4}}), "ab");
  EXPECT_EQ(gathered_along({{0, 0, 1}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}}), "ba");
  EXPECT_EQ(gathered_along({{0, 0, 2}, {1, 0, 2}}), "ab");
  EXPECT_EQ(cache.counts().entries, 3u);
  EXPECT_EQ(gathered_along({{1, 0, 4}}), "ab");
  EXPECT_EQ(gathered_along({{1, 0, 2}, {0, 0, 2}}), "ab");
  EXPECT_EQ(cache.counts().entries, 3u) << "compiled once for all slices whose axes are alike";
  EXPECT_EQ(cache.counts().hits, 2u);
}

// Four products of 2 GFLOP, one after another.
Program products() {
  ProgramBuilder b("products", Mesh{});
  const Type type = f32({1024, 1024});
  Value x = b.input("x", type), w = b.input("w", type);
  for (int i = 0; i < 4; ++i) x = dot(x, w);
  b.output("y", x);
  return b.build();
}

TEST(LowerTest, CallsAreCutByTheRatesOfTheirSlicesDevices) {
  CompileCache cache;
  const auto sections_of_kind = [&](std::vector<std::string> kinds) {
    const LowerOptions options{
        .slices = {{{0, 0, 1}}}, .kinds = std::move(kinds), .hosts = {"host-0"}};
    return lower(products(), options, cache).functions[0].sections;
  };
  EXPECT_EQ(sections_of_kind({"cpu"}).size(), 4u);
  EXPECT_EQ(sections_of_kind({"cuda"}).size(), 1u);
  EXPECT_EQ(sections_of_kind({}), sections_of_kind({"cpu"}));
}

}  // namespace
}  // namespace gangway
