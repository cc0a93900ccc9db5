// The table of strategies, meshes and clusters under which training is compared with one device.
//
// Threads: values.
#pragma once

#include <string>
#include <vector>

#include "programs/train/language_model.h"

namespace gangway::programs {

enum class ModelKind { kDense, kGatedUntied, kDropless, kCapacity, kPyramid, kDroplessPyramid };
const char* name_of(ModelKind kind);  // "Dense"

struct StrategyCase {
  ModelKind model = ModelKind::kDense;
  std::string strategy;
  std::string mesh;  // "data=2 model=2"
  std::string cluster;
  bool on_processes = false;  // True: a slow test runs the case on real processes too.
  int64_t accumulate = 1;     // Number of microbatches.
  bool remat = false;
};
std::string to_string(const StrategyCase& of);

const std::vector<StrategyCase>& strategy_cases();

Mesh mesh_of(const StrategyCase& of);

// A model of some thousand parameters, whose sizes 8 divides. kGatedUntied is gated and not tied,
// and has no positions. kPyramid has a dense layer, one of 2 experts and one of 4, each with a
// dense expert besides, and a capacity; kDroplessPyramid has no capacity.
LanguageModelConfig model_config(ModelKind kind);

}  // namespace gangway::programs
