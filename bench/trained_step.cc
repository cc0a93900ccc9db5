#include "bench/trained_step.h"

#include <algorithm>
#include <fstream>

#include "programs/default_text.h"
#include "programs/strategies/strategies.h"

namespace gangway::bench {

TrainedStep::TrainedStep(const Client& client, programs::LanguageModelConfig config,
                         std::vector<MeshAxis> axes, const std::string& strategy)
    : slice_(client.allocate({.devices = Mesh{axes}.devices()})) {
  config.text = (folder_.path() / "text.txt").string();
  std::ofstream(config.text) << programs::default_text();
  const Mesh mesh = slice_.mesh(std::move(axes));
  step_ = slice_.compile(
      programs::train_step(config, mesh, programs::strategy_of(strategy, mesh, config.model)));
}

Run TrainedStep::enqueue() {
  count_ += 1;
  return step_->run({{"lr", 1e-3f}, {"step", count_}});
}

int64_t TrainedStep::planned_bytes() const {
  int64_t most = 0;
  for (const auto& device : step_->memory().devices) most = std::max(most, device.total());
  return most;
}

}  // namespace gangway::bench
