// Training under a strategy, and what is compared of it.
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
  std::vector<double> losses;  // By step.
  double norm = 0;             // Of all gradients of the first step, before they were clipped.
  // Of the first step, clipped, by parameter: AdamW's first moments are a part of them.
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
// As a strategy of the test's own.
Outcome under(const StrategyCase& of, const Training& how, const Strategy& strategy);

// What the case trains, and a step of the test's own in place of train_step(), over its mesh.
LanguageModelConfig config_of(const StrategyCase& of, const Training& how);
Outcome train(const Program& step, const StrategyCase& of, const Training& how);

}  // namespace gangway::programs
