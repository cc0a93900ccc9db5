#include "tests/strategies/strategy_case.h"

#include <sstream>

namespace gangway::programs {
namespace {

std::vector<StrategyCase> dense_cases() {
  using enum ModelKind;
  return {
      {kDense, "data_parallel", "data=2", "local:1x2", true},
      {kDense, "data_parallel", "data=8", "local:2x4"},
      {kDense, "data_parallel", "pod=2 data=2", "local:2x2"},
      {kDense, "data_parallel", "pod=2 replica=2 data=2", "local:4x2"},
      {kDense, "data_parallel", "data=4", "local:2x2", false, 2, true},
      {kDense, "zero1", "data=2", "local:2x1"},
      {kDense, "zero1", "data=4", "local:2x2", true},
      {kDense, "zero1", "data=8", "local:2x4"},
      {kDense, "zero1", "replica=2 data=2", "local:2x2", false, 2},
      {kDense, "zero2", "data=2", "local:1x2"},
      {kDense, "zero2", "data=4", "local:4x1", true, 2},
      {kDense, "zero2", "data=8", "local:2x4", false, 2},
      {kDense, "zero3", "data=2", "local:2x1", true},
      {kDense, "zero3", "data=4", "local:1x4"},
      {kDense, "zero3", "data=8", "local:2x4", true},
      {kDense, "zero3", "replica=2 data=4", "local:2x4", false, 2},
      {kDense, "zero3", "data=4", "local:2x2", false, 1, true},
      {kGatedUntied, "zero3", "data=8", "local:1x8"},
      {kDense, "megatron", "model=2", "local:1x2", true},
      {kDense, "megatron", "model=4", "local:2x2"},
      {kDense, "megatron", "data=2 model=2", "local:2x2"},
      {kGatedUntied, "megatron", "data=2 model=4", "local:2x4"},
      {kGatedUntied, "megatron+vocab_parallel", "data=2 model=2", "local:2x2"},
      {kDense, "megatron+sequence_parallel", "model=2", "local:2x1"},
      {kDense, "megatron+sequence_parallel", "model=4", "local:1x4"},
      {kDense, "megatron+sequence_parallel", "data=2 model=2", "local:2x2", true},
      {kDense, "megatron+sequence_parallel", "data=2 model=4", "local:2x4", false, 1, true},
      {kDense, "megatron+sequence_parallel+vocab_parallel", "data=2 model=2", "local:2x2"},
      {kDense, "zero3+megatron", "data=2 model=2", "local:2x2", true},
      {kDense, "zero1+megatron+sequence_parallel", "data=2 model=2", "local:1x4"},
      {kDense, "zero3+megatron+sequence_parallel", "data=4 model=2", "local:2x4", true},
      {kDense, "zero3+megatron+sequence_parallel+vocab_parallel", "replica=2 data=2 model=2",
       "local:2x4", false, 2},
      {kDense, "context_parallel", "context=2", "local:1x2"},
      {kDense, "context_parallel", "data=2 context=4", "local:2x4", true},
      {kDense, "zero3+context_parallel", "data=2 context=2", "local:2x2"},
      {kDense, "zero3+megatron+sequence_parallel+context_parallel", "data=2 context=2 model=2",
       "local:2x4"},
      {kDense, "zero2+megatron+vocab_parallel+context_parallel",
       "pod=1 replica=1 data=2 expert=1 context=2 model=2", "local:2x4"},
  };
}

std::vector<StrategyCase> cases_of_experts() {
  using enum ModelKind;
  return {
      {kDropless, "data_parallel", "data=4", "local:2x2"},
      {kDropless, "data_parallel", "data=2 expert=2", "local:2x2"},
      {kDropless, "zero3", "data=2 expert=2", "local:2x2", true},
      {kDropless, "zero3+megatron", "data=2 model=2", "local:2x2"},
      {kDropless, "expert_parallel", "expert=2", "local:1x2"},
      {kDropless, "zero3+expert_parallel", "data=2 expert=2", "local:2x2"},
      {kCapacity, "data_parallel", "data=8", "local:2x4"},
      {kCapacity, "zero2", "data=2 expert=2", "local:2x2", false, 2},
      {kCapacity, "expert_parallel", "expert=2", "local:2x1"},
      {kCapacity, "expert_parallel", "data=2 expert=4", "local:2x4", true},
      {kCapacity, "zero1+expert_parallel", "data=2 expert=2", "local:2x2"},
      {kCapacity, "zero3+expert_parallel", "data=2 expert=4", "local:2x4", false, 1, true},
      {kCapacity, "zero3+expert_parallel+megatron+sequence_parallel", "data=2 expert=2 model=2",
       "local:2x4"},
      {kCapacity, "zero3+expert_parallel+megatron+context_parallel",
       "pod=1 replica=1 data=1 expert=2 context=2 model=2", "local:2x4"},
      {kDropless, "megatron+sequence_parallel+expert_parallel", "model=4", "local:2x2"},
      {kDropless, "megatron+sequence_parallel+expert_parallel", "data=2 model=2", "local:1x4",
       false, 1, true},
      {kDropless, "zero3+megatron+sequence_parallel+expert_parallel", "data=2 model=2",
       "local:2x2"},
      {kPyramid, "data_parallel", "data=4", "local:2x2"},
      {kPyramid, "expert_parallel", "expert=2", "local:1x2"},
      {kPyramid, "expert_parallel", "expert2=2 expert=2", "local:2x2", true},
      {kPyramid, "zero1+expert_parallel", "expert=2 expert2=2", "local:2x2"},
      {kPyramid, "zero3+expert_parallel", "data=2 expert2=2 expert=2", "local:2x4"},
      {kPyramid, "zero3+expert_parallel+megatron", "expert2=2 expert=2 model=2", "local:2x4", false,
       1, true},
      {kPyramid, "expert_parallel", "expert2=2 expert=2", "local:2x2", false, 2},
      {kDroplessPyramid, "expert_parallel", "expert2=2 expert=2", "local:2x2"},
      {kDroplessPyramid, "zero3+expert_parallel", "data=2 expert2=2 expert=2", "local:2x4"},
  };
}

}  // namespace

const char* name_of(ModelKind kind) {
  switch (kind) {
    case ModelKind::kDense: return "Dense";
    case ModelKind::kGatedUntied: return "GatedUntied";
    case ModelKind::kDropless: return "Dropless";
    case ModelKind::kCapacity: return "Capacity";
    case ModelKind::kPyramid: return "Pyramid";
    case ModelKind::kDroplessPyramid: return "DroplessPyramid";
  }
  return "?";
}

std::string to_string(const StrategyCase& of) {
  return cat(name_of(of.model), ", ", of.strategy, " over ", of.mesh, " on ", of.cluster,
             of.accumulate > 1 ? ", microbatches" : "", of.remat ? ", rematerialised" : "");
}

const std::vector<StrategyCase>& strategy_cases() {
  static const std::vector<StrategyCase> kCases = [] {
    std::vector<StrategyCase> all = dense_cases();
    for (const StrategyCase& of : cases_of_experts()) all.push_back(of);
    return all;
  }();
  return kCases;
}

Mesh mesh_of(const StrategyCase& of) {
  Mesh mesh;
  std::istringstream in(of.mesh);
  for (std::string axis; in >> axis;) {
    const size_t equals = axis.find('=');
    mesh.axes.push_back({axis.substr(0, equals), std::stoll(axis.substr(equals + 1))});
  }
  return mesh;
}

LanguageModelConfig model_config(ModelKind kind) {
  LanguageModelConfig config;
  config.batch = 16;
  config.model = {.seq = 16, .dim = 16, .layers = 2, .heads = 4, .hidden = 32};
  if (kind == ModelKind::kGatedUntied) {
    config.model.gated = true;
    config.model.tied = config.model.positional = false;
    config.model.activation = Activation::kSilu;
  }
  if (kind == ModelKind::kDropless || kind == ModelKind::kCapacity)
    config.model.moe = {.experts = 8, .top_k = 2, .groups = 8};
  if (kind == ModelKind::kCapacity) config.model.moe.capacity_factor = 1.0;
  if (kind == ModelKind::kPyramid || kind == ModelKind::kDroplessPyramid) {
    config.model.layers = 3;
    config.model.experts = {0, 2, 4};
    config.model.moe = {.top_k = 1,
                        .groups = 8,
                        .capacity_factor = kind == ModelKind::kPyramid ? 1.0 : 0.0,
                        .renormalize = false,
                        .residual = true};
  }
  return config;
}

}  // namespace gangway::programs
