// Under every strategy a model learns what it learns on one device.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "programs/strategies/data_parallel.h"
#include "tests/strategies/expect_equal.h"
#include "tests/strategies/rank_orders.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

class EquivalenceTest : public FolderTest, public testing::WithParamInterface<ModelKind> {};

TEST_P(EquivalenceTest, InF64EveryStrategyGivesTheLossesAndGradientsOfOneDevice) {
  const Training how{.text = write("text.txt", readable_text())};
  std::map<int64_t, Outcome> alone;  // Key: microbatches. An expert's group lies within one.
  for (const StrategyCase& of : strategy_cases()) {
    if (of.model != GetParam()) continue;
    SCOPED_TRACE(to_string(of));
    if (!alone.contains(of.accumulate)) alone[of.accumulate] = on_one_device(of, how);
    expect_equal_in_f64(under_strategy(of, how), alone[of.accumulate]);
  }
}

class RankOrdersTest : public FolderTest {};

// Losses of data parallelism in eight orders of ranks. Sums are done in eight orders, so the
// differences show how much of a loss is rounding. The model and the microbatches are those of
// `like`.
std::vector<Outcome> in_eight_orders(const StrategyCase& like, const Training& how) {
  StrategyCase of = like;
  of.strategy = "data_parallel";
  of.mesh = cat("data=", kOrderedRanks);
  of.cluster = "local:1x8";
  const Mesh mesh = mesh_of(of);
  const Program step = train_step(config_of(of, how), mesh, data_parallel(mesh));
  std::vector<Outcome> all;
  for (const RankOrder& order : kRankOrders)
    all.push_back(train(with_ranks_in_order(step, order), of, how));
  return all;
}

TEST_F(RankOrdersTest, AnyOrderOfRanksGivesTheResultsOfTheFirstInF64) {
  const Training how{.text = write("text.txt", readable_text()), .steps = 4};
  const std::vector<Outcome> runs = in_eight_orders({.model = ModelKind::kDropless}, how);
  for (const Outcome& run : runs) expect_equal_in_f64(run, runs[0]);
  EXPECT_TRUE(std::ranges::any_of(
      runs, [&](const Outcome& run) { return run.gradients != runs[0].gradients; }));
}

// The tree in which ranks are added, as a text. Left and right are the same.
std::string tree_of(std::span<const int64_t> ranks) {
  if (ranks.size() == 1) return cat(ranks[0]);
  const size_t half = ranks.size() / 2;
  std::string left = tree_of(ranks.first(half)), right = tree_of(ranks.subspan(half));
  if (right < left) std::swap(left, right);
  return cat("(", left, " ", right, ")");
}

TEST(RankOrdersTable, OrdersHoldAllRanksAndNoTwoAddInTheSameWay) {
  std::set<std::string> trees;
  for (const RankOrder& order : kRankOrders) {
    EXPECT_EQ(std::set(order.begin(), order.end()).size(), order.size());
    EXPECT_EQ(*std::ranges::max_element(order), kOrderedRanks - 1);
    trees.insert(tree_of(order));
  }
  EXPECT_EQ(trees.size(), kRankOrders.size());
}

struct Rounding {
  std::vector<double> losses;  // The mean loss of each step.
  double spread = 0;           // The largest spread of a step, as a part of the loss.
};

Rounding rounding_of(const std::vector<Outcome>& runs) {
  Rounding found;
  for (size_t step = 0; step < runs[0].losses.size(); ++step) {
    double low = runs[0].losses[step], high = low, sum = 0;
    for (const Outcome& run : runs) {
      low = std::min(low, run.losses[step]);
      high = std::max(high, run.losses[step]);
      sum += run.losses[step];
    }
    found.losses.push_back(sum / static_cast<double>(runs.size()));
    found.spread = std::max(found.spread, (high - low) / found.losses.back());
  }
  return found;
}

// Orders of ranks alone change next to nothing in bf16: ranks are added in f32, where the sum of
// eight numbers of 8 bits is nearly always exact, and it is rounded once. The number of ranks
// decides what each of them rounds, so bf16 also has runs on two and on four.
std::vector<Outcome> in_orders_of_sums(const StrategyCase& like, const Training& how) {
  std::vector<Outcome> all = in_eight_orders(like, how);
  if (how.compute != DType::kBF16) return all;
  StrategyCase of = like;
  of.strategy = "data_parallel";
  for (const int devices : {2, 4}) {
    of.mesh = cat("data=", devices);
    of.cluster = cat("local:1x", devices);
    all.push_back(under_strategy(of, how));
  }
  return all;
}

class RoundingTest : public FolderTest,
                     public testing::WithParamInterface<std::tuple<ModelKind, DType>> {};

// 4 times the spread may be at most this part of a loss, so that no error hides in it.
constexpr double kRoundingMaxF32 = 1e-3, kRoundingMaxBf16 = 0.02;

TEST_P(RoundingTest, StrategiesDifferByNoMoreThanOrdersOfSumsDo) {
  const auto [model, compute] = GetParam();
  const Training how{
      .text = write("text.txt", readable_text()), .storage = DType::kF32, .compute = compute};
  std::map<int64_t, Rounding> roundings;  // Key: microbatches, as in the test above.
  for (const StrategyCase& of : strategy_cases()) {
    if (of.model != model) continue;
    SCOPED_TRACE(to_string(of));
    if (!roundings.contains(of.accumulate))
      roundings[of.accumulate] = rounding_of(in_orders_of_sums(of, how));
    const Rounding& rounding = roundings[of.accumulate];
    EXPECT_GT(rounding.spread, 0);
    EXPECT_LT(4 * rounding.spread, compute == DType::kF32 ? kRoundingMaxF32 : kRoundingMaxBf16);
    const Outcome got = under_strategy(of, how);
    ASSERT_EQ(got.losses.size(), rounding.losses.size());
    for (size_t step = 0; step < got.losses.size(); ++step) {
      const double expected = rounding.losses[step];
      EXPECT_NEAR(got.losses[step], expected, 4 * rounding.spread * expected) << step + 1;
    }
  }
}

constexpr ModelKind kModels[] = {ModelKind::kDense,    ModelKind::kGatedUntied,
                                 ModelKind::kDropless, ModelKind::kCapacity,
                                 ModelKind::kPyramid,  ModelKind::kDroplessPyramid};

INSTANTIATE_TEST_SUITE_P(Types, RoundingTest,
                         testing::Combine(testing::ValuesIn(kModels),
                                          testing::Values(DType::kF32, DType::kBF16)),
                         [](const auto& of) {
                           return cat(name_of(std::get<0>(of.param)), "_",
                                      to_string(std::get<1>(of.param)));
                         });

INSTANTIATE_TEST_SUITE_P(Models, EquivalenceTest, testing::ValuesIn(kModels),
                         [](const auto& kind) { return name_of(kind.param); });

}  // namespace
}  // namespace gangway::programs
