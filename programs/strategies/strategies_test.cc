#include "programs/strategies/strategies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace gangway::programs {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TransformerConfig model() {
  return {.vocab = 64, .seq = 8, .dim = 16, .layers = 1, .heads = 4, .hidden = 32};
}
TransformerConfig experts() {
  TransformerConfig config = model();
  config.moe = {.experts = 8, .groups = 8};
  return config;
}

// The rules that match a name, each with its priority: "1 model: shard(1)".
std::vector<std::string> said(const std::vector<PlacementRule>& rules, const std::string& name) {
  std::vector<std::string> all;
  for (const PlacementRule& rule : rules) {
    if (matches(rule.pattern, name))
      all.push_back(cat(rule.priority, " ", to_string(rule.placements)));
  }
  return all;
}

Strategy made(const std::string& names, const std::vector<MeshAxis>& axes,
              const TransformerConfig& config = model()) {
  return strategy_of(names, Mesh{axes}, config);
}

TEST(Strategies, TheBatchIsCutOverAllAxesThatDivideNeitherLayersNorSequences) {
  const std::vector<MeshAxis> axes = {
      {"pod", 2}, {"data", 2}, {"expert", 2}, {"context", 2}, {"model", 2}};
  const Strategy strategy = made("megatron+context_parallel", axes, experts());
  EXPECT_EQ(to_string(strategy.batch),
            "pod: shard(0), data: shard(0), expert: shard(0), context: shard(1)");
}

TEST(Strategies, Zero3CutsParametersWhereTheyAreWholeAndTheirMomentsFollow) {
  const Strategy strategy = made("zero3+megatron", {{"data", 2}, {"model", 2}});
  EXPECT_THAT(said(strategy.parameters, "layers.attn.qkv"),
              ElementsAre("1 model: shard(2)", "2 data: shard(0)"));
  EXPECT_THAT(said(strategy.parameters, "layers.attn.o"),
              ElementsAre("1 model: shard(0)", "2 data: shard(1)"));
  EXPECT_THAT(said(strategy.parameters, "final_norm"), ElementsAre("2 data: shard(0)"));
  EXPECT_THAT(said(strategy.gradients, "layers.attn.o"), ElementsAre("2 data: shard(1)"));
  EXPECT_THAT(strategy.moments, IsEmpty());
}

TEST(Strategies, TheFirstStagesOfZeroLeaveParametersWhole) {
  const Strategy one = made("zero1", {{"data", 4}}), two = made("zero2", {{"data", 4}});
  EXPECT_THAT(one.parameters, IsEmpty());
  EXPECT_THAT(one.gradients, IsEmpty());
  EXPECT_THAT(said(one.moments, "embed"), ElementsAre("2 data: shard(0)"));
  EXPECT_THAT(two.parameters, IsEmpty());
  EXPECT_THAT(said(two.gradients, "embed"), ElementsAre("2 data: shard(0)"));
}

TEST(Strategies, ZeroUsesEachAxisOnceAndKeepsCopiesAlongOthers) {
  const std::vector<MeshAxis> axes = {{"replica", 2}, {"data", 2}, {"expert", 2}};
  const Strategy strategy = made("zero3+expert_parallel", axes, experts());
  EXPECT_THAT(said(strategy.parameters, "layers.moe.up"),
              ElementsAre("0 expert: shard(0)", "2 data: shard(1)"));
  EXPECT_THAT(said(strategy.parameters, "layers.attn.qkv"),
              ElementsAre("2 data: shard(0), expert: shard(0)"));
}

TEST(Strategies, ParametersThatDoNotDivideStayWhole) {
  TransformerConfig odd = model();
  odd.vocab = 6;
  odd.dim = 12;
  const Strategy strategy = made("zero3", {{"data", 8}}, odd);
  EXPECT_THAT(said(strategy.parameters, "embed"), IsEmpty()) << "6 x 12";
  EXPECT_THAT(said(strategy.parameters, "layers.ffn.up"), ElementsAre("2 data: shard(1)"));
}

TEST(Strategies, AnInnerCutOfADimensionSaysSo) {
  TransformerConfig narrow = model();
  narrow.vocab = 64;
  narrow.dim = 4;
  const Strategy strategy = made("zero3+vocab_parallel", {{"data", 8}, {"model", 2}}, narrow);
  EXPECT_THAT(said(strategy.parameters, "embed"),
              ElementsAre("1 model: shard(0)", "2 data: shard(0)@1"));
}

TEST(Strategies, NamesThatDoNotExistOrDoNotGoTogetherAreRefused) {
  const auto error = [](const std::string& names, const std::vector<MeshAxis>& axes) {
    return std::string(error_of([&] { made(names, axes); }).what());
  };
  EXPECT_THAT(error("zero4", {{"data", 2}}),
              AllOf(HasSubstr("there is no \"zero4\""), HasSubstr("zero1, zero2, zero3")));
  EXPECT_THAT(error("", {{"data", 2}}), HasSubstr("there is no \"\""));
  EXPECT_THAT(error("zero1+zero1", {{"data", 2}}), HasSubstr("zero1 is there twice"));
  EXPECT_THAT(error("zero1+zero3", {{"data", 2}}),
              HasSubstr("expected one of zero1, zero2, zero3"));
  EXPECT_THAT(error("vocab_parallel+sequence_parallel", {{"model", 2}}),
              HasSubstr("expected megatron+sequence_parallel"));
}

TEST(Strategies, AxesThatNothingUsesAndStrategiesWithoutTheirAxisAreRefused) {
  const auto error = [](const std::string& names, const std::vector<MeshAxis>& axes) {
    return std::string(error_of([&] { made(names, axes); }).what());
  };
  EXPECT_THAT(error("zero3", {{"data", 2}, {"model", 2}}),
              AllOf(HasSubstr("the axis \"model\""), HasSubstr("megatron or vocab_parallel")));
  EXPECT_THAT(error("megatron", {{"data", 2}}),
              AllOf(HasSubstr("the axis \"model\""), HasSubstr("--mesh model=N")));
  EXPECT_THAT(error("expert_parallel", {{"expert", 2}}), HasSubstr("the model has no experts"));
  for (const char* zero : {"zero1", "zero2", "zero3", "zero3+megatron"}) {
    EXPECT_THAT(
        error(zero, {{"replica", 2}, {"model", zero == std::string("zero3+megatron") ? 2 : 1}}),
        AllOf(HasSubstr("the axes \"data\" and \"expert\""), HasSubstr("--mesh data=N")));
  }
  made("zero3", {{"data", 1}});
  made("zero3", {{"expert", 2}});
}

// Slots of experts that have a capacity are cut beside the batch, with the priority of computing.
// Only the rule of their weights sends rows to dropless experts, so it has the batch's priority.
TEST(Strategies, RulesOfDroplessExpertsHaveThePriorityOfTheBatch) {
  TransformerConfig model = experts();
  for (const double factor : {0.0, 1.0}) {
    model.moe.capacity_factor = factor;
    const Strategy strategy = made("expert_parallel", {{"expert", 2}}, model);
    EXPECT_THAT(said(strategy.parameters, "layers.moe.up"),
                ElementsAre(factor > 0 ? "1 expert: shard(0)" : "0 expert: shard(0)"));
    EXPECT_EQ(strategy.activations.size(), factor > 0 ? 1u : 0u);
  }
}

TEST(Strategies, ExpertsOfAPyramidAreCutInEachOfItsLayers) {
  TransformerConfig pyramid = experts();
  pyramid.layers = 3;
  pyramid.moe.experts = 0;
  pyramid.experts = {0, 2, 4};
  const Strategy strategy = made("expert_parallel", {{"expert", 2}}, pyramid);
  EXPECT_THAT(said(strategy.parameters, "layers_from_1.moe.up"), ElementsAre("0 expert: shard(0)"));
  EXPECT_THAT(said(strategy.parameters, "layers_from_2.moe.up"), ElementsAre("0 expert: shard(0)"));
  // 2 experts x 2 data, then 4 experts x 1.
  const Strategy split = made("expert_parallel", {{"expert2", 2}, {"expert", 2}}, pyramid);
  EXPECT_EQ(to_string(split.batch), "expert2: shard(0), expert: shard(0)");
  EXPECT_THAT(said(split.parameters, "layers_from_1.moe.up"), ElementsAre("0 expert: shard(0)"));
  EXPECT_THAT(said(split.parameters, "layers_from_2.moe.up"),
              ElementsAre("0 expert: shard(0), expert2: shard(0)"));
  const std::vector<MeshAxis> axes = {{"data", 2}, {"expert2", 2}, {"expert", 2}};
  const Strategy kept = made("zero3+expert_parallel", axes, pyramid);
  EXPECT_THAT(said(kept.parameters, "layers_from_1.moe.up"),
              ElementsAre("0 expert: shard(0)", "2 data: shard(1), expert2: shard(1)"));
  EXPECT_THAT(said(kept.parameters, "layers_from_2.moe.up"),
              ElementsAre("0 expert: shard(0), expert2: shard(0)", "2 data: shard(1)"));
  EXPECT_THAT(said(kept.parameters, "layers.attn.qkv"),
              ElementsAre("2 data: shard(0), expert: shard(0), expert2: shard(0)"));
  const auto idle = [&] { made("expert_parallel", {{"expert2", 4}, {"expert", 2}}, pyramid); };
  EXPECT_THAT(error_of(idle).what(),
              AllOf(HasSubstr("the 4 devices of the axis \"expert2\" divide"),
                    HasSubstr("the most that a layer has is 4")));
  const auto error = [&] { made("expert_parallel", {{"expert", 4}}, pyramid); };
  EXPECT_THAT(error_of(error).what(),
              AllOf(HasSubstr("experts of each layer must divide over the 4 devices"),
                    HasSubstr("there are 2; expected expert=2")));
  pyramid.moe.experts = 8;
  pyramid.experts = {0, 0, 0};
  const auto dense = [&] { made("expert_parallel", {{"expert", 2}}, pyramid); };
  EXPECT_THAT(error_of(dense).what(), HasSubstr("the model has no experts"));
}

// With sequence parallelism the axis "model" cuts tokens, and holds whole experts where the mesh
// has no axis of experts.
TEST(Strategies, ExpertsLieWholeOverTheModelAxisWhereTheMeshHasNoneOfTheirOwn) {
  TransformerConfig model = experts();
  const std::string names = "expert_parallel+megatron+sequence_parallel";
  const Strategy folded = made(names, {{"model", 4}}, model);
  EXPECT_THAT(said(folded.parameters, "layers.moe.up"), ElementsAre("0 model: shard(0)"));
  EXPECT_THAT(said(folded.parameters, "layers.attn.qkv"), ElementsAre("1 model: shard(2)"));
  const Strategy apart = made(names, {{"expert", 2}, {"model", 2}}, model);
  EXPECT_THAT(said(apart.parameters, "layers.moe.up"),
              ElementsAre("0 expert: shard(0)", "1 model: shard(2)"));
  const auto error = [&](const std::string& of, int64_t size) {
    return std::string(error_of([&] { made(of, {{"model", size}}, model); }).what());
  };
  EXPECT_THAT(error("expert_parallel+megatron", 4), HasSubstr("--mesh expert=N"));
  model.moe.capacity_factor = 1.25;
  EXPECT_THAT(error(names, 4), HasSubstr("--mesh expert=N"));
  model.moe.capacity_factor = 0;
  model.heads = 16;
  model.dim = 64;
  model.hidden = 64;
  model.seq = 16;
  EXPECT_THAT(error(names, 16), AllOf(HasSubstr("the 16 devices of the axis \"model\""),
                                      HasSubstr("there are 8; expected model=8")));
}

TEST(Strategies, AxisSizesThatDoNotCutTheModelAreRefusedWithOnesThatDo) {
  const auto error = [](const std::string& names, const std::vector<MeshAxis>& axes) {
    return std::string(error_of([&] { made(names, axes, experts()); }).what());
  };
  EXPECT_THAT(error("megatron", {{"model", 6}}),
              AllOf(HasSubstr("heads must divide"), HasSubstr("there are 4; expected model=4")));
  EXPECT_THAT(
      error("context_parallel", {{"context", 3}}),
      AllOf(HasSubstr("positions must divide"), HasSubstr("there are 8; expected context=2")));
  EXPECT_THAT(error("expert_parallel", {{"expert", 5}}), HasSubstr("expected expert=4"));
  EXPECT_THAT(error("vocab_parallel", {{"model", 3}}), HasSubstr("the vocabulary's tokens must"));
  EXPECT_THAT(error("megatron+sequence_parallel+context_parallel", {{"model", 4}, {"context", 4}}),
              AllOf(HasSubstr("a device's positions must divide over the 4 devices"),
                    HasSubstr("there are 2; expected model=2")));
}

}  // namespace
}  // namespace gangway::programs
