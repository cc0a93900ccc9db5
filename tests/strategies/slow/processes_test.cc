// Trains some cases of the table on real processes.
#include <gtest/gtest.h>

#include <map>

#include "tests/strategies/expect_equal.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

class ProcessesTest : public FolderTest {};

TEST_F(ProcessesTest, StrategiesOnRealProcessesGiveTheLossesAndGradientsOfOneDevice) {
  Training how{.text = write("text.txt", readable_text())};
  std::map<std::pair<ModelKind, int64_t>, Outcome> alone;
  int cases = 0;
  for (const StrategyCase& of : strategy_cases()) {
    if (!of.on_processes) continue;
    SCOPED_TRACE(to_string(of));
    ++cases;
    const std::pair key{of.model, of.accumulate};
    how.in_process = true;
    if (!alone.contains(key)) alone[key] = on_one_device(of, how);
    how.in_process = false;
    expect_equal_in_f64(under_strategy(of, how), alone[key]);
  }
  EXPECT_GE(cases, 12);
}

}  // namespace
}  // namespace gangway::programs
