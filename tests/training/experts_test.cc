// Expert parallelism on devices: tokens cut over the axes data and expert, experts' weights over
// expert. Everything else of the program is as on one device.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/build/autodiff.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs::experts_test {
namespace {

constexpr int64_t kSteps = 6;

// Plain gradient descent in f64. `rules` place the parameters.
Program step_of(const LanguageModelConfig& config, const Mesh& mesh,
                const std::vector<PlacementRule>& rules) {
  ProgramBuilder b("train_step", mesh, config.seed);
  Tree params = b.state("params", transformer_parameters(config.model), rules);
  Attrs windows{{"path", config.text}, {"heldout", false}, {"seed", int64_t{1}}};
  Value tokens = b.source("tokens", {"text", windows}, i32({config.batch, config.model.seq}),
                          {{"data", shard(0)}, {"expert", shard(0)}});
  const auto loss_of = [&](const Tree& p, Value t) {
    return transformer_loss(config.model, p, t).total;
  };
  auto [loss, grads] = value_and_grad(loss_of)(params, tokens);
  std::map<std::string, Value> gradients;
  grads.for_each([&](const std::string& name, const Value& g) { gradients[name] = g; });
  b.update(params, params.map([&](const std::string& name, const Value& p) {
    return p - gradients.at(name) * 0.1;
  }));
  b.output("loss", loss);
  b.require_finite("loss");
  return b.build();
}

class ExpertsTest : public FolderTest {
 protected:
  LanguageModelConfig config(double capacity_factor) {
    LanguageModelConfig config =
        tiny_experts(FolderTest::write("text.txt", readable_text()), capacity_factor);
    config.model.storage = config.model.compute = DType::kF64;
    config.model.gated = true;
    return config;
  }

  struct Cluster {
    Cluster(const LanguageModelConfig& config, int64_t data, int64_t expert)
        : client(connect(cat("local:1x", data * expert),
                         {.in_process = true, .memory_bytes = 64 << 20})),
          slice(client.allocate({.devices = data * expert})),
          step(slice.compile(
              step_of(config, slice.mesh({{"data", data}, {"expert", expert}}),
                      {{"*.moe.up|*.moe.gate|*.moe.down", {{"expert", shard(0)}}}}))) {}
    Client client;
    Slice slice;
    Executable step;
  };

  static std::vector<double> losses(const LanguageModelConfig& config, int64_t data,
                                    int64_t expert) {
    Cluster cluster(config, data, expert);
    std::vector<gangway::Run> runs;
    for (int64_t i = 0; i < kSteps; ++i) runs.push_back(cluster.step.run());
    std::vector<double> losses;
    for (const gangway::Run& run : runs) losses.push_back(run["loss"].item<double>());
    return losses;
  }
};

TEST_F(ExpertsTest, WithACapacityTrainAsOnOneDevice) {
  const LanguageModelConfig model = config(1.25);
  const std::vector<double> one = losses(model, 1, 1);
  EXPECT_LT(one.back(), one.front()) << "nothing was learnt";
  for (const auto& [data, expert] : {std::pair(1, 2), std::pair(2, 2), std::pair(1, 4)}) {
    const std::vector<double> several = losses(model, data, expert);
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(several[i], one[i], 1e-9) << data << " x " << expert << ", step " << i + 1;
  }
}

TEST_F(ExpertsTest, WithoutACapacityTrainAsOnOneDevice) {
  LanguageModelConfig model = config(0);
  const std::vector<double> one = losses(model, 1, 1);
  EXPECT_LT(one.back(), one.front()) << "nothing was learnt";
  for (const auto& [data, expert] : {std::pair(1, 2), std::pair(2, 2), std::pair(1, 4)}) {
    model.model.moe.bound = static_cast<double>(expert);
    const std::vector<double> several = losses(model, data, expert);
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(several[i], one[i], 1e-9) << data << " x " << expert << ", step " << i + 1;
  }
}

// Room for one row makes the first step overflow: it is compiled again with more room, more than
// once, and all steps run again in order, each with its batch.
TEST_F(ExpertsTest, ExpertsWithTooLittleRoomAreCompiledAgainAndNoStepIsLost) {
  LanguageModelConfig model = config(0);
  model.model.moe.bound = 4;
  const std::vector<double> ample = losses(model, 1, 4);
  model.model.moe.bound = 0;
  EXPECT_EQ(losses(model, 1, 4), ample);
}

TEST_F(ExpertsTest, StepsThatRunAgainLeaveTheSameStates) {
  LanguageModelConfig model = config(0);
  const auto trained = [&](double bound) {
    model.model.moe.bound = bound;
    Cluster cluster(model, 1, 2);
    const std::string first = cluster.step.plan_text();
    for (int64_t i = 0; i < kSteps; ++i) cluster.step.run();
    cluster.step.run().wait();  // The test waits for none of the first six runs.
    EXPECT_EQ(cluster.step.position(), static_cast<uint64_t>(kSteps + 1));
    EXPECT_EQ(cluster.step.plan_text() != first, bound == 0) << "compiled again";
    return states_of(cluster.slice);
  };
  EXPECT_EQ(trained(0), trained(2));
}

}  // namespace
}  // namespace gangway::programs::experts_test
