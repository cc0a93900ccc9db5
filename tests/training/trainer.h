// A tiny language model in training on a cluster in this process. The tests of training share it.
//
// Threads: one thread.
// Ownership: the cluster ends with its Trainer.
//
// Example:
//   Trainer trainer(tiny_model(write("text.txt", readable_text())));
//   std::vector<float> losses = trainer.train(10);
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "client/client.h"
#include "programs/train/language_model.h"

namespace gangway::programs {

// Words of a fixed vocabulary in a fixed order, which a model can learn.
std::string readable_text(size_t bytes = 20'000);

// A dense model. A step takes some milliseconds on four devices.
LanguageModelConfig tiny_model(const std::filesystem::path& text);
// A model like tiny_model() with four experts. `capacity_factor` 0 is dropless.
LanguageModelConfig tiny_experts(const std::filesystem::path& text, double capacity_factor = 0);

// The bytes of every state, by name.
using States = std::map<std::string, std::vector<std::byte>>;
States states_of(const Slice& slice);

class Trainer {
 public:
  // Compiles the training step of the named strategy, over all devices as the axis "data".
  explicit Trainer(const LanguageModelConfig& config, const std::string& cluster = "local:2x2",
                   const std::string& strategy = "data_parallel");

  // Enqueues the next steps ahead of their results, and returns their losses.
  std::vector<float> train(int64_t steps, float lr = 0.01f);
  // Enqueues the next step alone.
  Run enqueue(float lr = 0.01f);

  Client client;
  Slice slice;
  Mesh mesh;
  Executable step;
  int64_t steps_done = 0;
};

}  // namespace gangway::programs
