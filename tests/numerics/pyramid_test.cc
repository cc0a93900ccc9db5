// A pyramid (PR-MoE; DeepSpeed-MoE, Rajbhandari et al. 2022): its layers have different numbers of
// experts, and a dense expert besides. Rules alone split the devices over experts and data, in each
// run of equal layers in another way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "checkpoint/tensor_parts.h"
#include "ir/build/autodiff.h"
#include "ir/graph/bodies.h"
#include "ir/transforms/pipeline.h"
#include "tests/interpret/interpret.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/numerics/traced_model.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway::numerics {
namespace {

// The model has one dense layer, one with 2 experts, and two with 4.
programs::TransformerConfig pyramid(double capacity_factor) {
  return {.vocab = 11,
          .seq = 6,
          .dim = 8,
          .layers = 4,
          .heads = 2,
          .hidden = 12,
          .storage = DType::kF64,
          .compute = DType::kF64,
          .moe = {.experts = 4,
                  .top_k = 1,
                  .groups = kBatch,
                  .capacity_factor = capacity_factor,
                  .balance_coefficient = 0.3,
                  .z_coefficient = 0.05,
                  .residual = true},
          .experts = {0, 2, 4, 4}};
}

// The stack that each layer is in.
const char* const kStacks[] = {"layers", "layers_from_1", "layers_from_2", "layers_from_2"};

// The values of a stacked state: its layers' tensors, which the reference names one by one, one
// behind another.
std::vector<double> stack_of(const reference::Tensors& tensors, const std::string& state) {
  if (const auto found = tensors.find(state); found != tensors.end()) return found->second;
  std::vector<double> rows;
  for (int layer = 0; layer < 4; ++layer) {
    const std::string prefix = cat(kStacks[layer], ".");
    if (!state.starts_with(prefix)) continue;
    const auto& row = tensors.at(cat("layers.", layer, ".", state.substr(prefix.size())));
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

// The loss and all gradients. `experts`: rules with the axes that cut the experts of each stack.
Function traced(const programs::TransformerConfig& config, const Mesh& mesh,
                const std::vector<PlacementRule>& experts) {
  Builder b("pyramid", mesh);
  AxisPlacements rows;
  for (const MeshAxis& axis : mesh.axes) rows.emplace_back(axis.name, shard(0));
  const Tree parameters = programs::transformer_parameters(config).map(
      [&](const std::string& name, const StateSpec& spec) {
        AxisPlacements placements;
        for (const PlacementRule& rule : experts) {
          if (!matches(rule.pattern, name)) continue;
          for (auto [axis, placed] : rule.placements)
            placements.emplace_back(axis, shard(placed.dim + 1));  // Layers are dimension 0.
        }
        return b.parameter(name, spec.type, placements);
      });
  Value tokens = b.parameter("tokens", i32({kBatch, config.seq}), rows);
  const programs::Losses losses = programs::transformer_loss(config, parameters, tokens);
  b.result("loss", losses.total);
  gradients(losses.total, parameters).for_each([&](const std::string& name, const Value& g) {
    b.result(name, g);
  });
  b.result("load", losses.load);
  return b.build();
}

std::vector<Literal> arguments_for(const Function& function, const Example& example) {
  std::vector<Literal> arguments;
  for (size_t i = 0; i + 1 < function.parameters.size(); ++i)
    arguments.push_back({function.types[i],
                         stack_of(side_by_side(example.parameters), function.parameters[i].name)});
  arguments.push_back({function.types[function.parameters.size() - 1],
                       {example.tokens.begin(), example.tokens.end()}});
  return arguments;
}

TEST(Pyramid, EqualsTheIndependentEvaluation) {
  const programs::TransformerConfig config = pyramid(0);
  const Example example = example_of(config, DType::kF64, gangway::tests::test_seed());
  const Function function = traced(config, Mesh{{{"data", 1}}}, {});
  const std::vector<Literal> results = interpret(function, arguments_for(function, example));
  EXPECT_NEAR(results[0].values[0], example.expected.loss, 1e-9);
  std::vector<Literal> got, expected;
  for (size_t i = 0; i + 1 < function.parameters.size(); ++i) {
    got.push_back(results[i + 1]);
    expected.push_back({results[i + 1].type, stack_of(side_by_side(example.expected.gradients),
                                                      function.parameters[i].name)});
  }
  EXPECT_LT(relative_difference(got, expected), 1e-9);
  // Three layers have experts; the first of them has two.
  const Literal& load = results.back();
  ASSERT_EQ(load.type.dims, (Dims{3, 4}));
  EXPECT_EQ(load.values[2] + load.values[3], 0);
  EXPECT_NEAR(load.values[0] + load.values[1], 1, 1e-12);
}

// The axes of all collectives of a kind, bodies included.
std::set<std::string> axes_of_all(const Function& local, Op op) {
  std::set<std::string> axes;
  BodyTable bodies;
  bodies.add(local);
  const auto look = [&](const Function& function) {
    for (const Node& node : function.nodes) {
      if (node.op == op) axes.insert(node.attrs.text("axes"));
    }
  };
  look(local);
  for (uint32_t i = 0; i < bodies.size(); ++i) look(bodies[i]);
  return axes;
}

TEST(Pyramid, EachRunOfLayersHasItsOwnSplitOfTheDevices) {
  const programs::TransformerConfig config = pyramid(1.5);
  const Mesh mesh{{{"a", 2}, {"b", 2}}};
  // 2 experts x 2 data, then 4 experts x 1.
  const char* const kWeights = ".moe.up|";
  const auto rule = [&](const std::string& stack, AxisPlacements placements) {
    return PlacementRule{cat(stack, kWeights, stack, ".moe.down"), std::move(placements)};
  };
  const std::vector<PlacementRule> rules = {
      rule("layers_from_1", {{"b", shard(0)}}),
      rule("layers_from_2", {{"a", shard(0)}, {"b", shard(0)}})};
  const Function function = traced(config, mesh, rules);
  const Example example = example_of(config, DType::kF64, gangway::tests::test_seed());
  const std::vector<Literal> arguments = arguments_for(function, example);
  CallContext context;
  context.result_placements.resize(function.results.size());
  for (size_t i = 0; i + 1 < function.parameters.size(); ++i)
    context.result_placements[i + 1] = function.parameters[i].placements;
  const Compiled compiled = compile_function(function, context);
  EXPECT_LT(
      relative_difference(interpret_compiled(compiled, arguments), interpret(function, arguments)),
      1e-12);
  EXPECT_THAT(axes_of_all(*compiled.local.function, Op::all_to_all),
              ::testing::UnorderedElementsAre("b", "a,b"));
}

// The names under which files hold the parameters.
std::set<std::string> names_in_files(const programs::TransformerConfig& config) {
  ProgramBuilder b("parameters");
  b.state("params", programs::transformer_parameters(config));
  std::set<std::string> names;
  for (const ProgramNode& node : b.build().nodes) {
    if (node.kind != NodeKind::kState) continue;
    Dims dims = node.types[0].dims;
    if (node.stacked) dims.erase(dims.begin());
    const int64_t rows = node.stacked ? node.stacked->count : 1;
    for (int64_t row = 0; row < rows; ++row) {
      const std::string name = node.stacked ? layer_name(node.name, *node.stacked, row) : node.name;
      const std::vector<std::string> parts = names_of_parts(name, dims);
      if (parts.empty()) names.insert(name);
      names.insert(parts.begin(), parts.end());
    }
  }
  return names;
}

TEST(Pyramid, FilesNameItsLayersAsThoseOfAnyOtherModel) {
  programs::TransformerConfig config = pyramid(0);
  const Example example = example_of(config, DType::kF64, gangway::tests::test_seed());
  std::set<std::string> expected;
  for (const auto& [name, tensor] : example.parameters) expected.insert("params." + name);
  EXPECT_EQ(names_in_files(config), expected);
}

TEST(Pyramid, NeedsANumberForEachLayer) {
  programs::TransformerConfig config = pyramid(0);
  config.experts.pop_back();
  EXPECT_THAT(error_of([&] { programs::transformer_parameters(config); }).what(),
              ::testing::HasSubstr("experts by layer: expected 4 numbers, got 3"));
}

}  // namespace
}  // namespace gangway::numerics
