// A transformer whose sequences are cut over devices trains as on one. Rules on the names of
// activations cut them, attention becomes a ring, and the model does not know.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "client/client.h"
#include "programs/models/transformer.h"
#include "programs/optim/adamw.h"
#include "tests/interpret/literal.h"
#include "tests/numerics/lowered_functions.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/support/seed.h"

namespace gangway::numerics::context_parallel_test {
namespace {

constexpr int64_t kBatch = 4, kSteps = 20;
constexpr double kRate = 0.01;

programs::TransformerConfig model() {
  return {.vocab = 24,
          .seq = 16,
          .dim = 8,
          .layers = 2,
          .heads = 2,
          .hidden = 16,
          .storage = DType::kF64,
          .compute = DType::kF64};
}

// One step of AdamW. Its outputs are the loss, the norm and every gradient.
Program training_step(const programs::TransformerConfig& config, const Mesh& mesh) {
  ProgramBuilder b("training_step", mesh);
  const Tree parameters = b.state("params", programs::transformer_parameters(config));
  const Value tokens = b.input("tokens", i32({kBatch, config.seq}), {{"data", shard(0)}});
  const Value loss = programs::transformer_loss(config, parameters, tokens).total;
  const Tree grads = gradients(loss, parameters);
  b.output("loss", loss);
  b.output("grad_norm", programs::adamw(b, parameters, grads, {.clip_norm = 0}).grad_norm);
  grads.for_each([&](const std::string& name, const Value& g) { b.output("grad." + name, g); });
  return b.build();
}

HostTensor tensor_of(const Literal& literal) {
  HostTensor tensor(literal.type);
  tensor.bytes = to_bytes(literal);
  return tensor;
}

struct Trained {
  std::vector<double> losses, norms;
  std::vector<Literal> gradients;  // Gradients of step 1.
};

Trained train(const std::string& cluster, const std::vector<MeshAxis>& axes,
              const programs::TransformerConfig& config) {
  const Client client = connect(cluster, {.in_process = true, .memory_bytes = 32 << 20});
  int64_t devices = 1;
  for (const MeshAxis& axis : axes) devices *= axis.size;
  const Slice slice = client.allocate({.devices = devices});
  const Executable step = slice.compile(training_step(config, slice.mesh(axes)));
  std::mt19937_64 random(gangway::tests::test_seed());
  Trained trained;
  for (int64_t n = 1; n <= kSteps; ++n) {
    Literal tokens{i32({kBatch, config.seq}), {}};
    for (int64_t i = 0; i < tokens.type.elements(); ++i)
      tokens.values.push_back(static_cast<double>(random() % static_cast<uint64_t>(config.vocab)));
    const gangway::Run run = step.run({{"tokens", tensor_of(tokens)},
                                       {"lr", tensor_of({f64(), {kRate}})},
                                       {"step", tensor_of({f64(), {static_cast<double>(n)}})}});
    trained.losses.push_back(run["loss"].item<double>());
    trained.norms.push_back(run["grad_norm"].item<double>());
    if (n > 1) continue;
    programs::transformer_parameters(config).for_each(
        [&](const std::string& name, const StateSpec&) {
          const HostTensor grad = run["grad." + name].to_host();
          trained.gradients.push_back(from_bytes(grad.type, grad.bytes));
        });
  }
  return trained;
}

// Where sequences are cut, attention in every layer passes keys on, forward and backward.
TEST(ContextParallel, KeysGoRoundInsteadOfBeingGathered) {
  programs::TransformerConfig cut = model();
  cut.activations = {{"embedded|residual", {{"context", shard(1)}}}};
  const Mesh mesh{{{"data", 2}, {"context", 2}}};
  const Program program = training_step(cut, mesh);
  const uint32_t call = program.find(NodeKind::kCall, "main");
  ASSERT_NE(call, kNone);
  const Function& step = *program.functions[program.nodes[call].function];
  const std::vector<std::string> names = op_names(*compile_function(step, {}).local.function);
  // Each layer, or the body of all layers, permutes keys and values forward (2), and keys, values
  // and their gradients backward (4). The gradients come home behind the loop (2).
  const auto permutes = std::ranges::count(names, "permute");
  EXPECT_TRUE(permutes > 0 && permutes % (2 + 4 + 2) == 0) << permutes;
}

TEST(ContextParallel, TwentyStepsEqualThoseOfOneDevice) {
  const Trained one = train("local:1x1", {{"data", 1}}, model());
  programs::TransformerConfig cut = model();
  cut.activations = {{"embedded|residual", {{"context", shard(1)}}}};
  for (const std::vector<MeshAxis>& axes :
       {std::vector<MeshAxis>{{"data", 2}, {"context", 2}}, {{"data", 1}, {"context", 4}}}) {
    SCOPED_TRACE(to_string(Mesh{axes}));
    const Trained many = train("local:2x2", axes, cut);
    for (size_t n = 0; n < one.losses.size(); ++n) {
      EXPECT_NEAR(many.losses[n], one.losses[n], 1e-9 * one.losses[n]) << "step " << n + 1;
      EXPECT_NEAR(many.norms[n], one.norms[n], 1e-8 * one.norms[n]) << "step " << n + 1;
    }
    for (size_t g = 0; g < one.gradients.size(); ++g)
      EXPECT_LT(relative_difference({many.gradients[g]}, {one.gradients[g]}), 1e-10) << g;
  }
}

}  // namespace
}  // namespace gangway::numerics::context_parallel_test
