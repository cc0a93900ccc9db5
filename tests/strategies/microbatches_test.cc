// Microbatches are a loop. It gives the results of one microbatch after another, and its sums are
// reduced once.
#include <gtest/gtest.h>

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "programs/strategies/data_parallel.h"
#include "tests/strategies/compiled_step.h"
#include "tests/strategies/training.h"
#include "tests/support/temp_folder.h"
#include "tests/training/trainer.h"

namespace gangway::programs {
namespace {

// The training step of data parallelism with each microbatch written out.
Program unrolled_step(const LanguageModelConfig& config, const Mesh& mesh) {
  ProgramBuilder b("train_step", mesh, config.seed);
  const Tree params = b.state("params", transformer_parameters(config.model));
  const int64_t parts = config.accumulate, micro = config.batch / parts, seq = config.model.seq;
  Attrs text;
  text.set("path", config.text);
  text.set("heldout", false);
  text.set("seed", static_cast<int64_t>(config.seed));
  Value tokens =
      b.source("tokens", {"text", text}, i32({config.batch, seq}), data_parallel(mesh).batch);
  tokens = reshape(tokens, {micro, parts, seq});
  Value loss;
  Tree grads;
  for (int64_t i = 0; i < parts; ++i) {
    const Value rows = reshape(slice(tokens, 1, i, i + 1), {micro, seq});
    const Value total = transformer_loss(config.model, params, rows).total;
    loss = loss.empty() ? total : loss + total;
    const Tree terms = gradients(total, params);
    grads = i == 0 ? terms : grads.map([&](const std::string& name, const Value& sum) {
      Value with;
      terms.for_each([&](const std::string& other, const Value& term) {
        if (other == name) with = sum + term;
      });
      return with;
    });
  }
  const double share = 1.0 / static_cast<double>(parts);
  const auto mean = [&](const std::string&, const Value& sum) { return sum * share; };
  const AdamwResult update = adamw(b, params, grads.map(mean), config.optimizer);
  b.output("loss", loss * share);
  b.output("grad_norm", update.grad_norm);
  return b.build();
}

class MicrobatchesTest : public FolderTest, public testing::WithParamInterface<ModelKind> {
 protected:
  static bool has_experts() { return programs::has_experts(model_config(GetParam()).model); }
};

TEST_P(MicrobatchesTest, ALoopOverMicrobatchesTrainsLikeTheUnrolledOne) {
  const Training how{.text = write("text.txt", readable_text())};
  for (const char* mesh : {"data=1", "data=2"}) {
    for (const int64_t microbatches : {2, 4}) {
      if (has_experts() && microbatches > 2) continue;  // The model has eight groups of rows.
      const StrategyCase of{GetParam(), "data_parallel", mesh, "local:1x2", false, microbatches};
      SCOPED_TRACE(to_string(of));
      const Outcome looped = under_strategy(of, how);
      const Outcome unrolled = train(unrolled_step(config_of(of, how), mesh_of(of)), of, how);
      ASSERT_EQ(looped.losses.size(), unrolled.losses.size());
      for (size_t step = 0; step < looped.losses.size(); ++step)
        EXPECT_NEAR(looped.losses[step], unrolled.losses[step], 1e-12) << step + 1;
      EXPECT_NEAR(looped.norm, unrolled.norm, 1e-12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MicrobatchesTest,
                         testing::Values(ModelKind::kDense, ModelKind::kGatedUntied,
                                         ModelKind::kDropless, ModelKind::kCapacity,
                                         ModelKind::kPyramid, ModelKind::kDroplessPyramid),
                         [](const auto& kind) { return name_of(kind.param); });

// Bytes that each device sends in sums over "data" in a step.
int64_t summed_bytes(const std::string& strategy, int64_t microbatches) {
  const Mesh mesh{{{"data", 4}}};
  LanguageModelConfig config = model_config(ModelKind::kDense);
  config.batch = 32;
  config.accumulate = microbatches;
  int64_t bytes = 0;
  for (const CollectiveUse& use : collectives_of(compiled_step(strategy, mesh, config))) {
    if (use.op == Op::all_reduce || use.op == Op::reduce_scatter) bytes += use.sent_bytes();
  }
  return bytes;
}

TEST(Microbatches, AreSummedOnEachDeviceAndReducedOnceWhereGradientsAreKeptWhole) {
  for (const char* strategy : {"data_parallel", "zero1"}) {
    SCOPED_TRACE(strategy);
    const int64_t few = summed_bytes(strategy, 2);
    EXPECT_EQ(summed_bytes(strategy, 8), few);
    // One number more: the loop does not know that a dense model's losses are one.
    EXPECT_EQ(few - summed_bytes(strategy, 1), 6);
  }
}

// A device that keeps gradients cut has no room for whole ones.
TEST(Microbatches, AreReducedOneByOneWhereGradientsAreCut) {
  for (const char* strategy : {"zero2", "zero3"})
    EXPECT_GT(summed_bytes(strategy, 4), 3 * summed_bytes(strategy, 1)) << strategy;
}

// Gradients of stacked layers are cut as the layers are, not along them, in the loop too.
TEST(Microbatches, HaveTheirGradientsCutAsParametersAre) {
  for (const char* strategy : {"zero2", "zero3"}) {
    SCOPED_TRACE(strategy);
    LanguageModelConfig config = model_config(ModelKind::kDense);
    config.batch = 32;
    config.accumulate = 4;
    for (const CollectiveUse& use :
         collectives_of(compiled_step(strategy, Mesh{{{"data", 4}}}, config)))
      EXPECT_NE(use.op, Op::all_to_all) << to_string(use.tensors[0]);
  }
}

}  // namespace
}  // namespace gangway::programs
