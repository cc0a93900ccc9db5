#include "tests/training/trainer.h"

#include "programs/strategies/strategies.h"
#include "runtime/base/rng.h"

namespace gangway::programs {
namespace {

int64_t devices_of(const std::string& cluster) { return cluster == "local:1x1" ? 1 : 4; }

}  // namespace

std::string readable_text(size_t bytes) {
  static constexpr const char* kWords[] = {"in ",  "the ",  "beginning ", "was ",   "a ",
                                           "word", "and ",  "light ",     "water ", "earth ",
                                           ". ",   "made ", "day ",       "night ", "good "};
  Rng rng(7);
  std::string text;
  while (text.size() < bytes) text += kWords[rng.below(std::size(kWords))];
  return text;
}

LanguageModelConfig tiny_model(const std::filesystem::path& text) {
  LanguageModelConfig config;
  config.batch = 8;
  config.text = text.string();
  config.model = {.seq = 16, .dim = 16, .layers = 2, .heads = 2, .hidden = 32};
  return config;
}

LanguageModelConfig tiny_experts(const std::filesystem::path& text, double capacity_factor) {
  LanguageModelConfig config = tiny_model(text);
  config.model.moe = {.experts = 4, .top_k = 2, .groups = 4, .capacity_factor = capacity_factor};
  return config;
}

States states_of(const Slice& slice) {
  States states;
  for (const auto& [name, type] : slice.states()) states[name] = slice.read_state(name).bytes;
  return states;
}

Trainer::Trainer(const LanguageModelConfig& config, const std::string& cluster,
                 const std::string& strategy)
    : client(connect(cluster, {.in_process = true, .memory_bytes = 64 << 20})),
      slice(client.allocate({.devices = devices_of(cluster)})),
      mesh(slice.mesh({{"data", slice.devices()}})),
      step(slice.compile(train_step(config, mesh, strategy_of(strategy, mesh, config.model)))) {}

Run Trainer::enqueue(float lr) {
  ++steps_done;
  return step.run({{"lr", lr}, {"step", static_cast<float>(steps_done)}});
}

std::vector<float> Trainer::train(int64_t steps, float lr) {
  std::vector<Run> runs;
  for (int64_t i = 0; i < steps; ++i) runs.push_back(enqueue(lr));
  std::vector<float> losses;
  for (const Run& run : runs) losses.push_back(run["loss"].item<float>());
  return losses;
}

}  // namespace gangway::programs
