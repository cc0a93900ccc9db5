// Overlap of collectives with later steps, on CPU and modelled devices: tests what a rank waits
// for, how much a late rank costs, and that no step sees bytes that a collective still uses.
#include <gtest/gtest.h>

#include "executor/devices/cpu/cpu_function.h"
#include "executor/devices/sim/timed_function.h"
#include "ir/graph/bodies.h"
#include "ir/text/text.h"
#include "ir/transforms/pipeline.h"
#include "tests/collectives/local_call.h"
#include "tests/collectives/timed_ranks.h"
#include "tests/support/stored_layers.h"

namespace gangway {
namespace {

Function function(std::string_view text) { return parse_function(text, "overlap.gw"); }

// Collectives 1, 3, 5, 7 sum the results of steps 0, 2, 4, 6; no step reads a sum before step 8.
const char* const kFour = R"(
local func @f(%0 "x": f32[4]) mesh {data: 4} {
  %1: f32[4] = exp %0
  %2: f32[4] = all_reduce %1 {axes = "data", reduction = "sum"}
  %3: f32[4] = tanh %0
  %4: f32[4] = all_reduce %3 {axes = "data", reduction = "sum"}
  %5: f32[4] = neg %0
  %6: f32[4] = all_reduce %5 {axes = "data", reduction = "sum"}
  %7: f32[4] = sqrt %0
  %8: f32[4] = all_reduce %7 {axes = "data", reduction = "sum"}
  %9: f32[4] = add %2, %4
  %10: f32[4] = add %6, %8
  return %9 "y", %10 "z"
}
)";

class OverlapTest : public ::testing::TestWithParam<bool> {
 protected:
  TimedRanks::Make make() {
    if (GetParam()) {
      return [this](const LocalFunction& local) {
        return std::make_unique<TimedFunction>(local, timer_);
      };
    }
    return [this](const LocalFunction& local) {
      return std::make_unique<CpuFunction>(local, par_, &timer_);
    };
  }

  Parallel par_{1};
  RanksTimer timer_;
};

TEST_P(OverlapTest, RanksThatAreLateInTurnCostTheMaximumAndNotTheSum) {
  timer_.late_ns = 5000 * kUs;
  timer_.late_step = [](uint32_t rank) { return 2 * rank; };
  TimedRanks ranks(function(kFour), make());
  const int64_t end_ns = ranks.run();
  // The latest rank's kernels; then the four collectives, one after another, and two sums. The
  // timed form has one late kernel where steps are merged, so it may differ by kernels alone.
  EXPECT_GE(end_ns, 5000 * kUs + 40 * kUs);
  EXPECT_LE(end_ns, 5000 * kUs + 60 * kUs);
}

TEST_P(OverlapTest, TimeOfACollectiveThatKernelsCoverIsNotExposed) {
  TimedRanks ranks(function(R"(
local func @f(%0 "x": f32[4]) mesh {data: 2} {
  %1: f32[4] = exp %0
  %2: f32[4] = all_reduce %1 {axes = "data", reduction = "sum"}
  %3: f32[4] = tanh %0
  %4: f32[4] = neg %3
  %5: f32[4] = sqrt %4
  %6: f32[4] = add %2, %5
  return %6 "y"
}
)"),
                   make());
  // exp, then 10 us that overlap three kernels, then add.
  EXPECT_EQ(ranks.run(), 12 * kUs);
  EXPECT_EQ(timer_.exposed_ns(0), 7 * kUs);
}

TEST_P(OverlapTest, ACollectiveThatHasEndedIsNotReportedAsWaitedFor) {
  TimedRanks ranks(function(R"(
local func @f(%0 "x": f32[4]) mesh {data: 2} {
  %1: f32[4] = exp %0
  %2: f32[4] = all_reduce %1 {axes = "data", reduction = "sum"}
  %3: f32[4] = neg %2
  return %3 "y"
}
)"),
                   make());
  const auto advance_all = [&](int64_t now_ns) {
    for (int round = 0; round < 2; ++round) {
      for (uint32_t rank = 0; rank < 2; ++rank) ranks.advance(rank, now_ns);
    }
  };
  advance_all(0);
  advance_all(1 * kUs);
  EXPECT_EQ(ranks.frame(0).awaited, 1u + 1) << "the all-reduce";
  advance_all(11 * kUs);
  EXPECT_EQ(ranks.step(0), 2u);
  EXPECT_EQ(ranks.frame(0).awaited, 0u) << "the last kernel runs";
}

// A collective takes 10 us, and each iteration has 1 us of kernels. A rank waits for an iteration's
// collective after the next iteration.
TEST_P(OverlapTest, ACollectiveThatAnIterationBeginsGoesOnDuringTheNext) {
  TimedRanks ranks(function(R"(
body 0 local func @layers(%0 "x": f32[4], %1 "w": f32[4]) mesh {data: 2} {
  %2: f32[4] = all_reduce %1 {axes = "data", reduction = "sum"}
  %3: f32[4] = neg %0
  return %3 "x", %2 "sums"
}
local func @f(%0 "x": f32[4], %1 "w": f32[3, 4]) mesh {data: 2} {
  %2: f32[4], %3: f32[3, 4] = scan %0, %1 {carries = 1, invariants = 0, length = 3} body 0
  %4: f32[4] = neg %0
  return %4 "y", %2 "x", %3 "sums"
}
)"),
                   make());
  EXPECT_EQ(ranks.run(), 31 * kUs);
  EXPECT_EQ(timer_.exposed_ns(0), 27 * kUs);
}

// Each iteration sums "rows", which no step in the loop reads, and the addend of the next
// iteration. The last iteration skips the sum ahead, and its rows are waited for after the loop: 9
// us, wherever the skipped sum stands, and however often a rank looks.
TEST_P(OverlapTest, TheSumBeforeOneThatIsPassedOverIsWaitedForOnce) {
  const std::string add = "  %5: f32[4] = add %3, %1\n";
  const std::string ahead = "  %6: f32[4] = all_reduce %2 {axes = \"data\", reduction = \"sum\"}\n";
  const std::string begin = R"(
body 0 local func @layers(%0 "x": f32[4], %1 "sum": f32[4], %2 "w": f32[4]) mesh {data: 2} {
  %3: f32[4] = neg %0
  %4: f32[4] = all_reduce %3 {axes = "data", reduction = "sum"}
)";
  const std::string scan = R"(  return %5 "x", %6 "sum", %4 "rows"
}
local func @f(%0 "x": f32[4], %1 "sum": f32[4], %2 "w": f32[3, 4]) mesh {data: 2} {
  %3: f32[4], %4: f32[4], %5: f32[3, 4] = scan %0, %1, %2 )";
  const std::string end = R"({ahead = 1, carries = 2, invariants = 0, length = 3, next = 1} body 0
  %6: f32[4] = neg %3
  return %6 "y", %5 "rows"
}
)";
  for (const std::string& body : {add + ahead, ahead + add}) {
    for (const int looks : {1, 2}) {
      timer_.exposed.clear();
      TimedRanks ranks(function(begin + body + scan + end), make());
      EXPECT_EQ(ranks.run(looks), 52 * kUs);
      EXPECT_EQ(timer_.exposed_ns(0), (18 + 18 + 9) * kUs);
    }
  }
}

// Two of three iterations compute a tanh for the next one.
TEST_P(OverlapTest, KernelsThatArePassedOverTakeNoTime) {
  TimedRanks ranks(function(R"(
body 0 local func @layers(%0 "x": f32[4], %1 "ahead": f32[4], %2 "w": f32[4]) mesh {data: 2} {
  %3: f32[4] = add %0, %1
  %4: f32[4] = tanh %2
  return %3 "x", %4 "ahead"
}
local func @f(%0 "x": f32[4], %1 "ahead": f32[4], %2 "w": f32[3, 4]) mesh {data: 2} {
  %3: f32[4], %4: f32[4] = scan %0, %1, %2 )"
                            R"({ahead = 1, carries = 2, invariants = 0, length = 3, next = 1} body 0
  %5: f32[4] = neg %3
  return %5 "y"
}
)"),
                   make());
  EXPECT_EQ(ranks.run(), (3 + 2 + 1) * kUs);
}

INSTANTIATE_TEST_SUITE_P(AllForms, OverlapTest, ::testing::Bool(),
                         [](const auto& i) { return i.param ? "TimeAlone" : "WithValues"; });

TEST(OverlapOnCpuTest, ARankGoesOnToTheFirstStepThatNeedsACollective) {
  Parallel par(1);
  TimedRanks ranks(function(kFour), [&](const LocalFunction& local) {
    return std::make_unique<CpuFunction>(local, par);
  });
  EXPECT_EQ(ranks.advance(0), Progress::kPending);
  EXPECT_EQ(ranks.step(0), 8u);
  EXPECT_EQ(ranks.frame(0).overlapped_count, 4u);
  EXPECT_EQ(ranks.frame(0).awaited, 3u + 1) << "add reads the sums of steps 1 and 3";
  for (uint32_t r = 1; r < 4; ++r) EXPECT_EQ(ranks.advance(r), Progress::kPending) << r;
  EXPECT_EQ(ranks.run(), 0);
  for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(ranks.frame(r).overlapped_count, 0u);
}

TEST(OverlapOnCpuTest, AStepWaitsForItsOwnGroupAlone) {
  Parallel par(1);
  TimedRanks ranks(
      function(R"(
local func @f(%0 "x": f32[4]) mesh {data: 2, model: 2} {
  %1: f32[4] = exp %0
  %2: f32[4] = all_reduce %1 {axes = "data", reduction = "sum"}
  %3: f32[4] = all_reduce %1 {axes = "model", reduction = "sum"}
  %4: f32[4] = neg %3
  %5: f32[4] = neg %2
  return %4 "y", %5 "z"
}
)"),
      [&](const LocalFunction& local) { return std::make_unique<CpuFunction>(local, par); });
  ranks.advance(0);
  EXPECT_EQ(ranks.step(0), 3u);
  ranks.advance(1);  // Along "model" it is the other member.
  ranks.advance(0);
  EXPECT_EQ(ranks.step(0), 4u);
  EXPECT_EQ(ranks.frame(0).overlapped_count, 1u);
  EXPECT_EQ(ranks.run(), 0);
}

// Random functions and bodies, with collectives at every place that may have one.
class RandomText {
 public:
  explicit RandomText(Rng& rng) : rng_(rng) {}

  std::string function() {
    std::string text;
    for (int b = 0; b < 2; ++b) {
      text += cat("body ", b, " local func @layer", b,
                  R"((%0 "x": f32[4], %1 "k": f32[4], %2 "s": f32[4]) )", kMesh);
      text += nodes(3, b, 3 + rng_.below(8));
      text +=
          cat("  %", next_, ": f32[4] = neg ", any(), "\n  %", next_ + 1, ": f32[4] = max ", any(),
              ", ", any(), "\n  return %", next_, " \"x\", %", next_ + 1, " \"rows\"\n}\n");
    }
    text += cat(R"(local func @f(%0 "x": f32[4], %1 "k": f32[4], %2 "s": f32[3, 4]) )", kMesh);
    text += nodes(3, 2, 6 + rng_.below(8));
    text += cat("  %", next_, ": f32[4] = neg ", any(), "\n  return %", next_, " \"y\"\n}\n");
    return text;
  }

 private:
  static constexpr const char* kMesh = "mesh {data: 2, model: 2} {\n";

  // `bodies`: number of bodies that the nodes may name.
  std::string nodes(uint32_t first, int bodies, uint64_t count) {
    const bool whole = bodies == 2;
    values_ = {"%0", "%1"};
    if (!whole) values_.emplace_back("%2");
    next_ = first;
    std::string text;
    for (; count > 0; --count) text += node(bodies, whole);
    return text;
  }
  std::string node(int bodies, bool whole) {
    const char* const axes[] = {"data", "model", "data,model"};
    const std::string along = axes[rng_.below(3)];
    const std::string result = cat("%", next_++);
    std::string text = cat("  ", result, ": f32[4] = ");
    switch (rng_.below(whole ? 6 : 5)) {
      case 0: text += cat("neg ", any()); break;
      case 1: text += cat("max ", any(), ", ", any()); break;
      case 2:
      case 3:
        text += cat("all_reduce ", any(), " {axes = \"", along, "\", reduction = \"max\"}");
        break;
      case 4:
        text +=
            cat("permute ", any(), " {axes = \"", along, "\", to = \"", along, "\", shift = 1}");
        break;
      default:
        text = cat("  ", result, ": f32[4], %", next_++, ": f32[3, 4] = scan ", any(), ", ", any(),
                   ", %2 {carries = 1, invariants = 1, length = 3} body ",
                   rng_.below(static_cast<uint64_t>(bodies)));
    }
    values_.push_back(result);
    return text + "\n";
  }
  std::string any() { return values_[rng_.below(values_.size())]; }

  Rng& rng_;
  std::vector<std::string> values_;
  uint32_t next_ = 0;
};

// Weights that are stored in parts (ZeRO-3), with kernels that take longer than a collective. The
// first layer begins with its gathers, which are waited for. The last layer ends with the mean of
// its rows, which is waited for after the loop; gradients are scattered before a layer's last
// kernel.
TEST_P(OverlapTest, OnlyTheFirstGathersOfStoredWeightsAreWaitedFor) {
  timer_.kernel_us = 100;
  for (const int64_t length : {2, 3, 9}) {
    const Function layers = tests::stored_layers({.length = length}, Mesh{{{"data", 4}}});
    const Compiled compiled = compile_function(
        layers, {.result_placements = {{}, {}, {{"data", shard(1)}}, {{"data", shard(2)}}}});
    int scans = 0;
    for (const Node& node : compiled.local.function->nodes) {
      if (node.op != Op::scan) continue;
      ++scans;
      EXPECT_EQ(ScanLayout(node).ahead, 2u);
    }
    EXPECT_GT(scans, 0);
    timer_.exposed.clear();
    TimedRanks ranks(*compiled.local.function, make());
    EXPECT_GT(ranks.run(), 0);
    EXPECT_EQ(ranks.exposed(timer_), (std::vector<std::string>{"all_gather of f64[8, 4]: 20 us",
                                                               "all_reduce of f64[4]: 10 us"}));
  }
}

TEST(OverlapOnHostsTest, RandomFunctionsGiveWhatTheReferenceGives) {
  Rng rng(tests::test_seed());
  const Cluster& four = kClusters[3];
  for (int round = 0; round < 24; ++round) {
    const std::string text = RandomText(rng).function();
    SCOPED_TRACE(text);
    const auto f = std::make_shared<const Function>(parse_function(text));
    for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kSim}) {
      LocalCall call(std::make_shared<LocalHosts>(four, kind), PlanId(1), f,
                     round % 2 == 0 ? 25'000 : 1);
      call.install();
      for (uint64_t run = 1; run <= 2; ++run) {
        const auto arguments = random_arguments(*f, rng.below(1 << 30));
        expect_reference(*f, arguments, call.run(arguments, run));
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace gangway
