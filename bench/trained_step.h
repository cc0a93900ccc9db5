// TrainedStep: trains a language model step by step on the book that comes with Gangway, under any
// strategy.
//
// Threads: those of its client.
// Ownership: must be gone before its client is closed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "programs/train/language_model.h"
#include "runtime/os/temp_dir.h"

namespace gangway::bench {

class TrainedStep {
 public:
  // Compiles the step. `axes`: those of all its devices; `strategy`: as programs::strategy_of()
  // takes it.
  TrainedStep(const Client& client, programs::LanguageModelConfig config,
              std::vector<MeshAxis> axes, const std::string& strategy = "data_parallel");

  // Runs one step, and waits for its loss.
  float run() { return enqueue()["loss"].item<float>(); }
  Run enqueue();
  const Slice& slice() const { return slice_; }
  // Memory that the plan needs on its fullest device.
  int64_t planned_bytes() const;

 private:
  TempDir folder_{"gangway-bench"};
  Slice slice_;
  std::optional<Executable> step_;
  float count_ = 0;
};

}  // namespace gangway::bench
