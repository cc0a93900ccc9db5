// Tests which exchanges a training step waits for, under modelled costs.
#include <gtest/gtest.h>

#include "executor/devices/sim/timed_function.h"
#include "tests/collectives/timed_ranks.h"
#include "tests/strategies/compiled_step.h"
#include "tests/strategies/strategy_case.h"

namespace gangway::programs {
namespace {

// Kernels take longer than a layer's gathers and scatters. Nothing is computed yet when the
// embeddings are gathered, and nothing is left to compute when their gradient, the last one, is
// scattered. The norm of all gradients, which clips each, is then summed with the loss.
TEST(OverlapOfStrategies, Zero3WaitsForTheFirstGatherAndTheLastScatterHoweverDeep) {
  RanksTimer timer;
  timer.kernel_us = 100;
  for (const int64_t layers : {2, 5, 12}) {
    SCOPED_TRACE(layers);
    LanguageModelConfig config = model_config(ModelKind::kDense);
    config.model.layers = layers;
    config.model.dim = 256;
    config.model.hidden = 512;
    config.model.vocab = 512;
    const Function local = compiled_step("zero3", Mesh{{{"data", 4}}}, config);
    timer.exposed.clear();
    TimedRanks ranks(local, [&](const LocalFunction& function) {
      return std::make_unique<TimedFunction>(function, timer);
    });
    EXPECT_GT(ranks.run(), 0);
    EXPECT_EQ(ranks.exposed(timer), (std::vector<std::string>{
                                        "all_gather of f32[512, 256]: 10 us",
                                        "reduce_scatter of f32[128, 256]: 10 us",
                                        "all_reduce of f32[]: 10 us",
                                    }));
  }
}

}  // namespace
}  // namespace gangway::programs
