#include "tests/strategies/training.h"

#include "programs/strategies/data_parallel.h"
#include "programs/strategies/strategies.h"

namespace gangway::programs {
namespace {

constexpr double kRate = 1e-3;

std::vector<double> doubles(const HostTensor& tensor) {
  if (tensor.type.dtype == DType::kF64) {
    const auto values = tensor.as<double>();
    return {values.begin(), values.end()};
  }
  const auto values = tensor.as<float>();
  return {values.begin(), values.end()};
}

HostTensor scalar(DType dtype, double value) {
  return dtype == DType::kF64 ? HostTensor(value) : HostTensor(static_cast<float>(value));
}

void read_first_step(const Slice& slice, const Run& run, Outcome& outcome) {
  outcome.norm = doubles(run["grad_norm"].to_host())[0];
  for (const auto& [name, type] : slice.states()) {
    constexpr std::string_view kMoments = "adamw.m.params.";
    if (name.starts_with(kMoments))
      outcome.gradients[name.substr(kMoments.size())] = doubles(slice.read_state(name));
  }
}

}  // namespace

LanguageModelConfig config_of(const StrategyCase& of, const Training& how) {
  LanguageModelConfig config = model_config(of.model);
  config.text = how.text.string();
  config.accumulate = of.accumulate;
  config.model.remat = of.remat;
  config.model.storage = how.storage;
  config.model.compute = how.compute;
  return config;
}

Outcome train(const Program& program, const StrategyCase& of, const Training& how) {
  Client client = connect(of.cluster, {.in_process = how.in_process, .memory_bytes = 64 << 20});
  Slice slice = client.allocate({.devices = mesh_of(of).devices()});
  const Executable step = slice.compile(program);
  Outcome outcome;
  std::vector<Run> runs;
  for (int64_t i = 1; i <= how.steps; ++i) {
    runs.push_back(step.run({{"lr", scalar(how.storage, kRate)},
                             {"step", scalar(how.storage, static_cast<double>(i))}}));
    if (i == 1) read_first_step(slice, runs[0], outcome);
  }
  for (const Run& run : runs) outcome.losses.push_back(doubles(run["loss"].to_host())[0]);
  return outcome;
}

Outcome on_one_device(const StrategyCase& of, const Training& how) {
  StrategyCase alone = of;
  alone.mesh = "data=1";
  alone.cluster = "local:1x1";
  return under(alone, how, data_parallel(mesh_of(alone)));
}

Outcome under(const StrategyCase& of, const Training& how, const Strategy& strategy) {
  return train(train_step(config_of(of, how), mesh_of(of), strategy), of, how);
}

Outcome under_strategy(const StrategyCase& of, const Training& how) {
  return under(of, how, strategy_of(of.strategy, mesh_of(of), config_of(of, how).model));
}

}  // namespace gangway::programs
