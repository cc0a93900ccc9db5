// Under every strategy a model learns what it learns on one device.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/strategies/expect_equal.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

class EquivalenceTest : public FolderTest, public testing::WithParamInterface<ModelKind> {};

TEST_P(EquivalenceTest, InF64EveryStrategyGivesTheLossesAndGradientsOfOneDevice) {
  const Training how{.text = write("text.txt", readable_text())};
  std::map<int64_t, Outcome> alone;  // By microbatches: experts' groups are of one microbatch.
  for (const StrategyCase& of : strategy_cases()) {
    if (of.model != GetParam()) continue;
    SCOPED_TRACE(to_string(of));
    if (!alone.contains(of.accumulate)) alone[of.accumulate] = on_one_device(of, how);
    expect_equal_in_f64(under_strategy(of, how), alone[of.accumulate]);
  }
}

// Losses of data parallelism whose ranks have the rows of the batch in eight orders, so that sums
// are done in eight orders: how much of a loss is rounding.
std::vector<Outcome> in_eight_orders(ModelKind kind, const Training& how) {
  std::vector<Outcome> all;
  std::vector<int> order = {0, 1, 2};
  do {
    const StrategyCase of{kind, "data_parallel", "a=2 b=2 c=2", "local:2x4"};
    Strategy strategy{.name = "data_parallel"};
    for (size_t i = 0; i < 3; ++i)
      strategy.batch.emplace_back(std::string(1, static_cast<char>('a' + i)), shard(0, order[i]));
    all.push_back(under(of, how, strategy));
  } while (std::ranges::next_permutation(order).found);
  all.push_back(under_strategy({kind, "data_parallel", "data=2", "local:1x2"}, how));
  all.push_back(under_strategy({kind, "data_parallel", "data=4", "local:2x2"}, how));
  return all;
}

struct Rounding {
  std::vector<double> losses;  // The mean, by step.
  double spread = 0;           // The largest, as a part of the loss.
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

class RoundingTest : public FolderTest, public testing::WithParamInterface<DType> {};

TEST_P(RoundingTest, StrategiesDifferByNoMoreThanOrdersOfSumsDo) {
  Training how{.text = write("text.txt", readable_text()), .storage = DType::kF32};
  how.compute = GetParam();
  const Rounding rounding = rounding_of(in_eight_orders(ModelKind::kDense, how));
  EXPECT_GT(rounding.spread, 0);
  if (how.compute == DType::kF32) {
    EXPECT_LT(4 * rounding.spread, 1e-3);
  }
  for (const auto& [strategy, mesh] : std::vector<std::pair<std::string, std::string>>{
           {"zero1", "data=4"},
           {"zero2", "data=4"},
           {"zero3", "data=4"},
           {"megatron", "data=2 model=2"},
           {"megatron+sequence_parallel", "model=4"},
           {"megatron+vocab_parallel", "data=2 model=2"},
           {"context_parallel", "data=2 context=2"},
           {"zero3+megatron+sequence_parallel", "data=2 model=2"}}) {
    SCOPED_TRACE(cat(strategy, " over ", mesh));
    const Outcome got = under_strategy({ModelKind::kDense, strategy, mesh, "local:2x2"}, how);
    for (size_t step = 0; step < got.losses.size(); ++step) {
      const double expected = rounding.losses[step];
      EXPECT_NEAR(got.losses[step], expected, 4 * rounding.spread * expected) << step + 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RoundingTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& dtype) { return std::string(to_string(dtype.param)); });

INSTANTIATE_TEST_SUITE_P(Models, EquivalenceTest,
                         testing::Values(ModelKind::kDense, ModelKind::kGatedUntied,
                                         ModelKind::kDropless, ModelKind::kCapacity),
                         [](const auto& kind) { return name_of(kind.param); });

}  // namespace
}  // namespace gangway::programs
