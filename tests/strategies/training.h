// Training under a strategy, and the results that tests compare.
//
// Threads: one thread.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/strategies/strategy_case.h"

namespace gangway::programs {

struct Outcome {
  std::vector<double> losses;  // The loss of each step.
  double norm = 0;             // Norm of all gradients of the first step, before clipping.
  // AdamW's first moments after the first step, by parameter: a part of the clipped gradients.
  std::map<std::string, std::vector<double>> gradients;
};

struct Training {
  std::filesystem::path text;
  int64_t steps = 20;
  DType storage = DType::kF64, compute = DType::kF64;
  bool in_process = true;
};

// The case's model on one device.
Outcome on_one_device(const StrategyCase& of, const Training& how);
Outcome under_strategy(const StrategyCase& of, const Training& how);
// Like under_strategy(), but with a strategy of the test's own.
Outcome under(const StrategyCase& of, const Training& how, const Strategy& strategy);

// The configuration that the case trains.
LanguageModelConfig config_of(const StrategyCase& of, const Training& how);
// Trains over the case's mesh with a step of the test's own in place of train_step().
Outcome train(const Program& step, const StrategyCase& of, const Training& how);

}  // namespace gangway::programs
