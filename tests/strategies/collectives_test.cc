// Tests the collectives of a training step under each strategy. They are those of the papers that
// strategies are named after, whatever the batch and the number of devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "tests/strategies/compiled_step.h"
#include "tests/support/places.h"

namespace gangway::programs {
namespace {

struct Listed {
  std::string strategy;
  bool has_experts = false;
  std::vector<std::string> axes;
  bool is_dropless = false;  // Its experts are dropless.
  bool is_pyramid = false;   // It has a dense layer, one of few experts and one of 16.
};

const std::vector<Listed>& listed() {
  static const std::vector<Listed> kListed = {
      {"data_parallel", false, {"data"}},
      {"zero1", false, {"data"}},
      {"zero2", false, {"data"}},
      {"zero3", false, {"data"}},
      {"megatron", false, {"model"}},
      {"megatron+sequence_parallel", false, {"model"}},
      {"megatron+vocab_parallel", false, {"model"}},
      {"megatron", false, {"data", "model"}},
      {"zero3+megatron", false, {"data", "model"}},
      {"zero3+megatron+sequence_parallel", false, {"data", "model"}},
      {"context_parallel", false, {"context"}},
      {"expert_parallel", true, {"expert"}},
      {"expert_parallel", true, {"data", "expert"}},
      {"zero3+expert_parallel", true, {"data", "expert"}},
      {"expert_parallel", true, {"expert"}, true},
      {"zero3+expert_parallel", true, {"data", "expert"}, true},
      {"megatron+sequence_parallel+expert_parallel", true, {"model"}, true},
      {"megatron+sequence_parallel+expert_parallel", true, {"data", "model"}, true},
      {"expert_parallel", true, {"expert2", "expert"}, false, true},
      {"expert_parallel", true, {"expert2", "expert"}, true, true},
  };
  return kListed;
}

// A mesh of two devices along each axis.
Mesh mesh_of(const Listed& of) {
  Mesh mesh;
  for (const std::string& axis : of.axes) mesh.axes.push_back({axis, 2});
  return mesh;
}

Mesh resized(Mesh mesh, size_t axis, int64_t size) {
  mesh.axes[axis].size = size;
  return mesh;
}

// Sizes that 8 devices along any axis can cut, with 2 along another axis.
LanguageModelConfig config_of(const Listed& of, const Mesh& mesh, int64_t batch = 32) {
  LanguageModelConfig config;
  config.batch = batch;
  config.model = {.seq = 16, .dim = 32, .layers = 2, .heads = 8, .hidden = 64};
  // Each device deals its rows out to all devices: of eight devices each has eight rows.
  if (of.strategy == "context_parallel") config.model.seq = 64;
  if (of.has_experts)
    config.model.moe = {
        .experts = 8, .top_k = 2, .groups = 16, .capacity_factor = of.is_dropless ? 0.0 : 1.0};
  if (of.is_pyramid) {
    config.model.layers = 3;
    // The layer of few experts has one for each device along "expert", the last axis, and is copied
    // along the other axis, however long they are.
    config.model.experts = {0, mesh.axes.back().size, 16};
    config.model.moe.residual = true;
  }
  return config;
}

std::vector<CollectiveUse> uses_of(const Listed& of, const Mesh& mesh,
                                   const LanguageModelConfig& config) {
  return collectives_of(compiled_step(of.strategy, mesh, config));
}

std::set<std::string> kinds_and_axes(const std::vector<CollectiveUse>& uses) {
  std::set<std::string> all;
  for (const CollectiveUse& use : uses) all.insert(cat(to_string(use.op), " over ", use.axes));
  return all;
}

// The number of tensors that a kind of collective moves over some axes in a step. With `type`, only
// tensors of that type count.
int64_t count(const std::vector<CollectiveUse>& uses, Op op, const std::string& axes,
              const std::optional<Type>& type = std::nullopt) {
  int64_t tensors = 0;
  for (const CollectiveUse& use : uses) {
    if (use.op != op || use.axes != axes) continue;
    const auto fits = [&](const Type& tensor) { return !type || tensor == *type; };
    tensors += use.times * std::ranges::count_if(use.tensors, fits);
  }
  return tensors;
}

TEST(Collectives, GoldenListOfEachStrategy) {
  std::ifstream in(tests::source_folder() + "/tests/golden/strategies/collectives.txt");
  const std::string golden{std::istreambuf_iterator<char>(in), {}};
  std::string text;
  for (const Listed& of : listed()) {
    const Mesh mesh = mesh_of(of);
    const char* with_experts = of.has_experts ? ", experts," : "";
    text += cat("-- ", of.strategy, of.is_dropless ? ", dropless experts," : with_experts,
                of.is_pyramid ? " a pyramid," : "", " over ", to_string(mesh), "\n",
                summary_of(uses_of(of, mesh, config_of(of, mesh))));
  }
  EXPECT_EQ(golden, text);
}

TEST(Collectives, KindsAndAxesAreTheSameForTwiceTheBatchAndForTwoOrEightDevicesAlongAnyAxis) {
  for (const Listed& of : listed()) {
    std::vector<Mesh> meshes = {mesh_of(of)};
    for (size_t axis = 0; axis < of.axes.size(); ++axis)
      meshes.push_back(resized(meshes[0], axis, 8));
    const auto expected = kinds_and_axes(uses_of(of, meshes[0], config_of(of, meshes[0])));
    EXPECT_FALSE(expected.empty());
    for (const Mesh& mesh : meshes) {
      for (int64_t batch : {32, 64}) {
        SCOPED_TRACE(cat(of.strategy, " over ", to_string(mesh), ", a batch of ", batch));
        EXPECT_EQ(kinds_and_axes(uses_of(of, mesh, config_of(of, mesh, batch))), expected);
      }
    }
  }
}

// The host of each device: its coordinate along one axis, the only one that crosses hosts.
std::vector<uint32_t> hosts_along(const Mesh& mesh, size_t axis) {
  int64_t stride = 1;
  for (size_t inner = axis + 1; inner < mesh.axes.size(); ++inner) stride *= mesh.axes[inner].size;
  std::vector<uint32_t> hosts;
  for (int64_t device = 0; device < mesh.devices(); ++device)
    hosts.push_back(static_cast<uint32_t>(device / stride % mesh.axes[axis].size));
  return hosts;
}

TEST(Collectives, KindsAndAxesAreTheSameWhicheverAxisCrossesHosts) {
  for (const Listed& of : listed()) {
    if (of.axes.size() < 2) continue;
    const Mesh mesh = mesh_of(of);
    const LanguageModelConfig config = config_of(of, mesh);
    const auto expected = kinds_and_axes(uses_of(of, mesh, config));
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
      SCOPED_TRACE(cat(of.strategy, " over ", to_string(mesh), ", hosts along ", of.axes[axis]));
      const auto uses =
          collectives_of(compiled_step(of.strategy, mesh, config, hosts_along(mesh, axis)));
      EXPECT_EQ(kinds_and_axes(uses), expected);
    }
  }
}

// A partitioner that gathers all cut tensors and computes everything on every device would have
// these collectives.
TEST(Collectives, NoStrategyHasTheCollectivesOfComputingEverythingEverywhere) {
  for (const Listed& of : listed()) {
    const Mesh mesh = mesh_of(of);
    LanguageModelConfig config = config_of(of, mesh);
    SCOPED_TRACE(cat(of.strategy, " over ", to_string(mesh)));
    const auto expected = kinds_and_axes(uses_of(of, mesh, config));
    config.text = "/a/text";
    Strategy whole = strategy_of(of.strategy, mesh, config.model);
    AxisPlacements nowhere;
    for (const MeshAxis& axis : mesh.axes) nowhere.emplace_back(axis.name, replicate());
    whole.batch = nowhere;
    whole.activations = {{"*", nowhere}};
    whole.gradients = {{"*", nowhere}};
    const auto listed = collectives_of(local_function(train_step(config, mesh, whole)));
    EXPECT_NE(kinds_and_axes(listed), expected);
  }
}

TEST(Collectives, TensorParallelismReducesFourTimesALayer) {
  const Listed of{"megatron", false, {"model"}};
  const LanguageModelConfig config = config_of(of, mesh_of(of));
  const TransformerConfig& model = config.model;
  const Type activation = f32({config.batch, model.seq, model.dim});
  const auto uses = uses_of(of, mesh_of(of), config);
  EXPECT_EQ(count(uses, Op::all_reduce, "model", activation), 4 * model.layers);
  EXPECT_EQ(count(uses, Op::all_gather, "model"), 0);
}

TEST(Collectives, SequenceParallelismGathersAndScattersInsteadOfReducing) {
  const Listed of{"megatron+sequence_parallel", false, {"model"}};
  const LanguageModelConfig config = config_of(of, mesh_of(of));
  const TransformerConfig& model = config.model;
  const Type activation = f32({config.batch, model.seq, model.dim});
  const Type part = f32({config.batch, model.seq / 2, model.dim});
  const auto uses = uses_of(of, mesh_of(of), config);
  EXPECT_EQ(count(uses, Op::all_gather, "model", part), 4 * model.layers);
  EXPECT_EQ(count(uses, Op::reduce_scatter, "model", activation), 4 * model.layers);
  EXPECT_EQ(count(uses, Op::all_reduce, "model", activation), 0);
}

// With rematerialisation the inputs of products are kept cut, and are computed and gathered again
// for the gradients of weights (Korthikanti et al. 2022, section 4.2.2).
TEST(Collectives, SequenceParallelismGathersRematerialisedInputsOnceMore) {
  const Listed of{"megatron+sequence_parallel", false, {"model"}};
  LanguageModelConfig config = config_of(of, mesh_of(of));
  config.model.remat = true;
  const Type part = f32({config.batch, config.model.seq / 2, config.model.dim});
  const auto uses = uses_of(of, mesh_of(of), config);
  EXPECT_EQ(count(uses, Op::all_gather, "model", part), (4 + 2) * config.model.layers);
}

TEST(Collectives, FullyShardedParametersAreGatheredTwiceInTheirComputeTypeAndScatteredOnce) {
  const Listed of{"zero3", false, {"data"}};
  LanguageModelConfig config = config_of(of, mesh_of(of));
  config.model.compute = DType::kBF16;
  const auto uses = uses_of(of, mesh_of(of), config);
  // Key: elements of a whole tensor. Value: the number of times that such tensors are gathered, or
  // scattered.
  std::map<int64_t, int64_t> gathered, scattered, twice, once;
  for (const CollectiveUse& use : uses) {
    if (use.op != Op::all_gather && use.op != Op::reduce_scatter) continue;
    ASSERT_EQ(use.tensors.size(), 1u);
    const Type& tensor = use.tensors[0];
    EXPECT_EQ(tensor.dtype, DType::kBF16);
    (use.op == Op::all_gather ? gathered : scattered)[use.bytes / 2] += use.times;
  }
  config.text = "/a/text";
  const Mesh mesh = mesh_of(of);
  const Program program = train_step(config, mesh, strategy_of("zero3", mesh, config.model));
  for (const ProgramNode& node : program.nodes) {
    if (node.kind != NodeKind::kState || !node.name.starts_with("params.")) continue;
    const Type& state = node.types[0];
    const int64_t tensors = node.stacked ? state.dims[0] : 1;
    twice[state.elements() / tensors] += 2 * tensors;
    once[state.elements() / tensors] += tensors;
  }
  twice[config.model.seq * config.model.dim] -= 1;  // The backward pass reads no positions.
  EXPECT_EQ(gathered, twice);
  EXPECT_EQ(scattered, once);
  EXPECT_EQ(count(uses, Op::all_to_all, "data"), 0);
}

TEST(Collectives, RowsOfExpertsGoThereAndBackInEachPass) {
  const Listed of{"expert_parallel", true, {"expert"}};
  const LanguageModelConfig config = config_of(of, mesh_of(of));
  const TransformerConfig& model = config.model;
  const Mesh mesh = resized(mesh_of(of), 0, 4);
  const auto uses = uses_of(of, mesh, config);
  const int64_t tokens = config.batch * model.seq / model.moe.groups;
  const int64_t slots = model.moe.experts * capacity_of(model.moe, tokens);
  const int64_t groups = model.moe.groups / mesh.devices();
  EXPECT_EQ(count(uses, Op::all_to_all, "expert"), 4 * model.layers);
  for (const CollectiveUse& use : uses) {
    if (use.op != Op::all_to_all) continue;
    EXPECT_EQ(use.sent_bytes(), use.times * groups * slots * model.dim * 4 * 3 / 4);
  }
  EXPECT_EQ(count(uses, Op::all_gather, "expert"), 0) << "no weight moves";
}

// Devices also report to one another how many rows come, once in each pass.
TEST(Collectives, DroplessRowsOfExpertsGoThereAndBackInEachPassToo) {
  for (const bool gated : {false, true}) {
    const Listed of{"expert_parallel", true, {"expert"}, true};
    LanguageModelConfig config = config_of(of, mesh_of(of));
    config.model.gated = gated;
    int64_t rows = 0, counts = 0;
    for (const CollectiveUse& use : uses_of(of, mesh_of(of), config)) {
      if (use.op == Op::ragged_all_to_all) {
        EXPECT_EQ(use.tensors[0].dims.back(), config.model.dim);
        rows += use.times;
      }
      if (use.op == Op::all_to_all) {
        EXPECT_EQ(use.tensors[0].dtype, DType::kI32);
        counts += use.times;
      }
      EXPECT_NE(use.op, Op::all_gather) << "no weight moves";
    }
    EXPECT_EQ(rows, 4 * config.model.layers) << "gated: " << gated;
    EXPECT_EQ(counts, 2 * config.model.layers) << "gated: " << gated;
  }
}

}  // namespace
}  // namespace gangway::programs
