#include "tests/numerics/reference_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "runtime/base/error.h"

namespace gangway::reference {
namespace {

constexpr int kBatch = 4;

uint64_t test_seed() {
  const char* text = std::getenv("GW_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 20;
}

ModelConfig tiny() {
  return {.vocab = 11, .seq = 5, .dim = 6, .layers = 2, .heads = 2, .hidden = 7};
}

ModelConfig tiny_moe() {
  ModelConfig config = tiny();
  config.moe = {
      .experts = 4, .top_k = 2, .groups = 2, .balance_coefficient = 0.3, .z_coefficient = 0.05};
  return config;
}

std::vector<int32_t> random_tokens(const ModelConfig& config, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_int_distribution<int32_t> any(0, config.vocab - 1);
  std::vector<int32_t> tokens(static_cast<size_t>(kBatch * config.seq));
  for (int32_t& token : tokens) token = any(engine);
  return tokens;
}

// The first seed from the given one on whose routing has no near tie, so that finite differences do
// not change a choice.
uint64_t seed_away_from_ties(const ModelConfig& config) {
  for (uint64_t seed = test_seed();; ++seed) {
    Evaluation e =
        evaluate(config, random_parameters(config, seed), random_tokens(config, seed), kBatch);
    if (e.routing_margin > 1e-3) return seed;
  }
}

// The derivative of the loss by one parameter, from differences of fourth order.
double difference(const ModelConfig& config, Tensors& parameters, double& value,
                  const std::vector<int32_t>& tokens) {
  constexpr double kStep = 1e-4;
  double kept = value;
  auto loss_at = [&](double steps) {
    value = kept + steps * kStep;
    double loss = evaluate(config, parameters, tokens, kBatch).loss;
    value = kept;
    return loss;
  };
  return (8 * (loss_at(1) - loss_at(-1)) - (loss_at(2) - loss_at(-2))) / (12 * kStep);
}

// Compares every gradient with differences, relative to the norm of the whole gradient.
void expect_gradients_match_differences(const ModelConfig& config) {
  uint64_t seed = seed_away_from_ties(config);
  SCOPED_TRACE(cat("seed ", seed));
  Tensors parameters = random_parameters(config, seed);
  std::vector<int32_t> tokens = random_tokens(config, seed);
  Evaluation exact = evaluate(config, parameters, tokens, kBatch);
  double squares = 0, error_squares = 0;
  for (auto& [name, tensor] : parameters) {
    double own_squares = 0;
    for (size_t i = 0; i < tensor.size(); ++i) {
      double g = exact.gradients.at(name)[i];
      double error = difference(config, parameters, tensor[i], tokens) - g;
      own_squares += g * g;
      error_squares += error * error;
    }
    EXPECT_GT(own_squares, 0) << name << " has no gradient at all";
    squares += own_squares;
  }
  EXPECT_LT(std::sqrt(error_squares / squares), 1e-9);
}

TEST(ReferenceModel, DenseGradientsMatchDifferences) { expect_gradients_match_differences(tiny()); }

TEST(ReferenceModel, GatedUntiedSiluGradientsWithoutPositionsMatchDifferences) {
  ModelConfig config = tiny();
  config.gated = true;
  config.tied = config.positional = false;
  config.activation = Activation::kSilu;
  expect_gradients_match_differences(config);
}

TEST(ReferenceModel, DroplessMoeGradientsMatchDifferences) {
  expect_gradients_match_differences(tiny_moe());
}

TEST(ReferenceModel, CapacityMoeGradientsMatchDifferencesWithDroppedTokens) {
  ModelConfig config = tiny_moe();
  config.gated = true;
  config.activation = Activation::kSilu;
  config.moe.renormalise = false;
  config.moe.capacity = 3;
  uint64_t seed = seed_away_from_ties(config);
  Evaluation e =
      evaluate(config, random_parameters(config, seed), random_tokens(config, seed), kBatch);
  EXPECT_GT(e.dropped, 0);
  expect_gradients_match_differences(config);
}

TEST(ReferenceModel, ZeroParametersPredictUniformly) {
  ModelConfig config = tiny();
  Tensors parameters = random_parameters(config, 1);
  for (auto& [name, value] : parameters) std::fill(value.begin(), value.end(), 0.0);
  Evaluation e = evaluate(config, parameters, random_tokens(config, 1), kBatch);
  EXPECT_NEAR(e.cross_entropy, std::log(11), 1e-12);
}

TEST(ReferenceModel, EqualRouterTiesGoToTheLowerExpertsAndLossesTakeTheirKnownValues) {
  ModelConfig config = tiny_moe();
  Tensors parameters = random_parameters(config, 1);
  for (const char* name : {"layers.0.moe.router", "layers.1.moe.router"}) {
    std::fill(parameters[name].begin(), parameters[name].end(), 0.0);
  }
  Evaluation e = evaluate(config, parameters, random_tokens(config, 1), kBatch);
  int64_t tokens_per_group = kBatch * config.seq / config.moe.groups;
  EXPECT_EQ(e.expert_loads[0][0], (std::vector<int64_t>{tokens_per_group, tokens_per_group, 0, 0}));
  EXPECT_EQ(e.routing_margin, 0);
  // Uniform probabilities: experts * sum_e f_e / experts = 1 in each layer, whatever was chosen.
  EXPECT_NEAR(e.balance, 2, 1e-12);
  EXPECT_NEAR(e.z, 2 * std::log(4) * std::log(4), 1e-12);
  EXPECT_NEAR(e.loss, e.cross_entropy + 0.3 * e.balance + 0.05 * e.z, 1e-12);
}

TEST(ReferenceModel, TokensBeyondTheCapacityAreDropped) {
  ModelConfig config = tiny_moe();
  Tensors parameters = random_parameters(config, 3);
  std::vector<int32_t> tokens = random_tokens(config, 3);
  Evaluation dropless = evaluate(config, parameters, tokens, kBatch);
  config.moe.capacity = kBatch * config.seq;
  EXPECT_DOUBLE_EQ(evaluate(config, parameters, tokens, kBatch).loss, dropless.loss);
  config.moe.capacity = 1;
  Evaluation tight = evaluate(config, parameters, tokens, kBatch);
  int64_t kept_at_most = 2 * config.moe.groups * config.moe.experts;
  EXPECT_GE(tight.dropped, 2 * kBatch * config.seq * config.moe.top_k - kept_at_most);
  EXPECT_NE(tight.loss, dropless.loss);
}

TEST(ReferenceModel, PredictionsAreNormalisedAndDoNotSeeTheFuture) {
  ModelConfig config = tiny_moe(), shorter = tiny_moe();
  config.moe.groups = shorter.moe.groups = 1;
  shorter.seq = config.seq - 1;
  Tensors parameters = random_parameters(config, 5), short_parameters = parameters;
  short_parameters["pos"].resize(static_cast<size_t>(shorter.seq * config.dim));
  std::vector<int32_t> tokens = {3, 1, 4, 1, 0};
  std::vector<int32_t> prefix(tokens.begin(), tokens.end() - 1);
  double prefix_loss = 3 * evaluate(shorter, short_parameters, prefix, 1).cross_entropy;
  // If the prefix did see the last token, these would not be the probabilities of one distribution.
  double sum = 0;
  for (int32_t last = 0; last < config.vocab; ++last) {
    tokens.back() = last;
    sum += std::exp(prefix_loss - 4 * evaluate(config, parameters, tokens, 1).cross_entropy);
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(ReferenceModel, WrongParametersAndTokensAreRefused) {
  ModelConfig config = tiny();
  Tensors parameters = random_parameters(config, 1);
  std::vector<int32_t> tokens = random_tokens(config, 1);
  tokens[3] = 11;
  EXPECT_THROW(evaluate(config, parameters, tokens, kBatch), Error);
  tokens[3] = 0;
  parameters["pos"].pop_back();
  EXPECT_THROW(evaluate(config, parameters, tokens, kBatch), Error);
}

}  // namespace
}  // namespace gangway::reference
