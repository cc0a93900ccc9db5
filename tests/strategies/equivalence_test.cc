// Under every strategy a model learns what it learns on one device.
#include <gtest/gtest.h>

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

INSTANTIATE_TEST_SUITE_P(Models, EquivalenceTest,
                         testing::Values(ModelKind::kDense, ModelKind::kOther, ModelKind::kDropless,
                                         ModelKind::kCapacity),
                         [](const auto& kind) { return name_of(kind.param); });

}  // namespace
}  // namespace gangway::programs
