#include "programs/train/language_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph/bodies.h"
#include "ir/text/text.h"
#include "ir/transforms/pipeline.h"
#include "ir/verify/verify.h"
#include "programs/strategies/data_parallel.h"
#include "programs/strategies/strategies.h"
#include "tests/support/error_of.h"

namespace gangway::programs::language_model_test {
namespace {

using testing::HasSubstr;
using testing::Not;

LanguageModelConfig tiny(bool experts) {
  LanguageModelConfig config;
  config.batch = 8;
  config.text = "text.txt";
  config.model = {.seq = 16, .dim = 16, .layers = 2, .heads = 2, .hidden = 32};
  if (experts) config.model.moe = {.experts = 4, .top_k = 2, .groups = 4};
  return config;
}

const Function& main_function(const Program& program) {
  for (const ProgramNode& node : program.nodes) {
    if (node.kind == NodeKind::kCall) return *program.functions[node.function];
  }
  throw Error(ErrorKind::kBug, "the program calls nothing");
}

int count(const Function& function, Op op) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == op;
  return found;
}

// Counts the nodes in the bodies that its scans run, in each body once.
int count_in_bodies(const Function& function, Op op) {
  BodyTable bodies;
  bodies.add(function);
  int found = 0;
  for (uint32_t i = 0; i < bodies.size(); ++i) found += count(bodies[i], op);
  return found;
}

// The in-place pairs of a program's only call.
CallContext context_of(const Program& program) {
  CallContext context;
  for (const ProgramNode& node : program.nodes) {
    if (node.kind != NodeKind::kCall) continue;
    for (const StateUpdate& update : node.updates) {
      for (uint32_t p = 0; p < node.inputs.size(); ++p) {
        if (node.inputs[p].node == update.state) context.in_place.push_back({p, update.result});
      }
    }
  }
  return context;
}

class LanguageModel : public testing::TestWithParam<bool> {};

TEST_P(LanguageModel, ProgramsAreValid) {
  Mesh mesh{{{"data", 4}}};
  LanguageModelConfig config = tiny(GetParam());
  require_valid(train_step(config, mesh));
  require_valid(evaluate(config, mesh));
  require_valid(generate_step(config, mesh));
}

TEST_P(LanguageModel, AProgramIsAsLargeForManyLayersAsForTwo) {
  LanguageModelConfig deep = tiny(GetParam());
  deep.model.layers = 48;
  const Mesh mesh{{{"data", 4}}};
  const auto expect_equal_size = [](const Program& small, const Program& large) {
    EXPECT_EQ(large.nodes.size(), small.nodes.size());
    EXPECT_EQ(main_function(large).nodes.size(), main_function(small).nodes.size());
  };
  expect_equal_size(train_step(tiny(GetParam()), mesh), train_step(deep, mesh));
  expect_equal_size(generate_step(tiny(GetParam()), mesh), generate_step(deep, mesh));
}

TEST_P(LanguageModel, ATrainingStepAllReducesOnceALayerAndOnceForTheRest) {
  Program program = train_step(tiny(GetParam()), Mesh{{{"data", 4}}});
  Compiled compiled = compile_function(main_function(program), context_of(program));
  const Function& local = *compiled.local.function;
  EXPECT_EQ(count(local, Op::all_reduce), 1) << "losses and gradients are independent sums";
  EXPECT_EQ(count_in_bodies(local, Op::all_reduce), 1) << "of a layer's gradients";
  EXPECT_EQ(count(local, Op::shard_slice), 0);
  for (NodeId id = compiled.local.commit_begin; id < local.nodes.size(); ++id) {
    EXPECT_EQ(local.nodes[id].op, Op::adamw) << "every state is written in place";
  }
  EXPECT_GT(count(local, Op::adamw), 0);
}

TEST_P(LanguageModel, GenerationNeedsNoCollective) {
  Program program = generate_step(tiny(GetParam()), Mesh{{{"data", 4}}});
  Compiled compiled = compile_function(main_function(program), context_of(program));
  EXPECT_EQ(count(*compiled.local.function, Op::all_reduce), 0);
  EXPECT_EQ(count_in_bodies(*compiled.local.function, Op::all_reduce), 0);
}

TEST_P(LanguageModel, HoweverManyMicrobatchesAStepAllReducesOnce) {
  LanguageModelConfig config = tiny(GetParam());
  config.batch = 32;
  std::vector<size_t> nodes;
  for (const int64_t microbatches : {2, 8}) {
    SCOPED_TRACE(microbatches);
    config.accumulate = microbatches;
    Program program = train_step(config, Mesh{{{"data", 4}}});
    nodes.push_back(main_function(program).nodes.size());
    Compiled compiled = compile_function(main_function(program), context_of(program));
    const Function& local = *compiled.local.function;
    EXPECT_EQ(count(local, Op::all_reduce), 1) << "of all sums over microbatches";
    EXPECT_EQ(count_in_bodies(local, Op::all_reduce), 0);
    EXPECT_EQ(count_in_bodies(local, Op::keep_first), 0) << "sums begin at zero everywhere";
    for (NodeId id = compiled.local.commit_begin; id < local.nodes.size(); ++id)
      EXPECT_EQ(local.nodes[id].op, Op::adamw) << "every state is written in place";
  }
  EXPECT_EQ(nodes[0], nodes[1]) << "a program is as large for many microbatches as for two";
}

TEST_P(LanguageModel, RematerialisedLayersLowerToo) {
  LanguageModelConfig config = tiny(GetParam());
  config.model.remat = true;
  Program program = train_step(config, Mesh{{{"data", 4}}});
  Compiled compiled = compile_function(main_function(program), context_of(program));
  EXPECT_EQ(count_in_bodies(*compiled.local.function, Op::packed_attention), 2)
      << "a layer's twice";
}

INSTANTIATE_TEST_SUITE_P(Model, LanguageModel, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Experts" : "Dense"; });

TEST(LanguageModelConfig, GroupsOfAPyramidMustDivideOverTheDevicesToo) {
  LanguageModelConfig config = tiny(true);
  config.model.moe.experts = 0;
  config.model.experts = {0, 4};
  config.model.moe.groups = 2;
  const Mesh mesh{{{"data", 4}}};
  EXPECT_THAT(error_of([&] { train_step(config, mesh); }).what(),
              testing::HasSubstr("moe groups must divide over the devices: groups is 2"));
  // None of these layers has experts.
  config.model.moe.experts = 4;
  config.model.experts = {0, 0};
  require_valid(train_step(config, mesh));
}

TEST(LanguageModelConfig, LayersOfAPyramidAreNumberedTogetherInEveryStateOfTheirs) {
  LanguageModelConfig config = tiny(true);
  config.model.layers = 3;
  config.model.experts = {0, 4, 4};
  const Mesh mesh{{{"data", 4}}};
  const auto first_and_last = [](const Program& p, const std::string& state) {
    const ProgramNode& node = p.nodes.at(p.find(NodeKind::kState, state));
    return layer_name(state, *node.stacked, 0) + " " +
           layer_name(state, *node.stacked, node.stacked->count - 1);
  };
  const Program step = train_step(config, mesh);
  EXPECT_EQ(first_and_last(step, "params.layers.ffn.up"),
            "params.layers.0.ffn.up params.layers.0.ffn.up");
  EXPECT_EQ(first_and_last(step, "params.layers_from_1.moe.up"),
            "params.layers.1.moe.up params.layers.2.moe.up");
  EXPECT_EQ(first_and_last(step, "adamw.m.params.layers_from_1.moe.up"),
            "adamw.m.params.layers.1.moe.up adamw.m.params.layers.2.moe.up");
  EXPECT_EQ(first_and_last(generate_step(config, mesh), "generate.layers_from_1.k"),
            "generate.layers.1.k generate.layers.2.k");
}

TEST(LanguageModelConfig, RulesOnActivationsGoBeforeThoseOfTheStrategy) {
  const Mesh mesh{{{"data", 2}, {"model", 2}}};
  LanguageModelConfig config = tiny(false);
  const auto lines = [&](const Strategy& strategy) {
    return print(train_step(config, mesh, strategy));
  };
  const Strategy data = data_parallel(mesh), tensor = strategy_of("megatron", mesh, config.model);
  EXPECT_THAT(lines(data), Not(HasSubstr("constrain")));
  config.model.activations = {{"ffn.hidden", {{"model", shard(1)}}, kComputePriority}};
  EXPECT_THAT(lines(data), HasSubstr("placements = \"model: shard(1)\""));
  EXPECT_THAT(lines(tensor), HasSubstr("placements = \"model: shard(1)\""));
}

TEST(LanguageModelConfig, ABatchThatDoesNotDivideIsNamed) {
  LanguageModelConfig config = tiny(false);
  config.batch = 6;
  const Mesh mesh{{{"data", 4}}};
  EXPECT_THAT(error_of([&] { train_step(config, mesh); }).what(),
              HasSubstr("train_step: the batch"));
  EXPECT_THAT(error_of([&] { evaluate(config, mesh); }).what(), HasSubstr("evaluate: the batch"));
}

}  // namespace
}  // namespace gangway::programs::language_model_test
