#include "tests/numerics/reference_adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/error.h"

namespace gangway::reference {
namespace {

TEST(ReferenceAdamW, FirstStepMovesByTheRateAgainstTheSignAndDecaysByItself) {
  Tensors p = {{"w", {2.0, -4.0}}};
  AdamWState state;
  adamw_step({.epsilon = 0, .decay = 0.1}, 0.01, {{"w", {3.0, -0.5}}}, p, state);
  EXPECT_DOUBLE_EQ(p["w"][0], 2.0 - 0.01 * (1 + 0.1 * 2.0));
  EXPECT_DOUBLE_EQ(p["w"][1], -4.0 - 0.01 * (-1 + 0.1 * -4.0));
}

TEST(ReferenceAdamW, SecondStepEqualsTheFormulaWrittenOut) {
  Tensors p = {{"w", {1.0}}};
  AdamWState state;
  AdamWConfig config = {.beta1 = 0.5, .beta2 = 0.75, .epsilon = 0.125, .decay = 0};
  adamw_step(config, 0.1, {{"w", {2.0}}}, p, state);
  EXPECT_DOUBLE_EQ(p["w"][0], 1 - 0.1 * 2 / (2 + 0.125));
  double before = p["w"][0];
  adamw_step(config, 0.1, {{"w", {-1.0}}}, p, state);
  // m = (0.5 * 1 - 0.5) = 0, v = 0.75 * 1 + 0.25 = 1.
  EXPECT_DOUBLE_EQ(p["w"][0], before);
  EXPECT_DOUBLE_EQ(state.v["w"][0], 1.0);
}

TEST(ReferenceAdamW, ClipsByTheNormOfAllGradientsTogether) {
  Tensors p = {{"a", {0.0}}, {"b", {0.0}}};
  AdamWState state;
  double norm = adamw_step({.beta1 = 0, .decay = 0, .clip_norm = 1}, 0.1,
                           {{"a", {3.0}}, {"b", {4.0}}}, p, state);
  EXPECT_DOUBLE_EQ(norm, 5);
  EXPECT_DOUBLE_EQ(state.m["a"][0], 0.6);
  EXPECT_DOUBLE_EQ(state.m["b"][0], 0.8);
}

TEST(ReferenceAdamW, ParametersOutsideTheRuleDoNotDecay) {
  Tensors p = {{"norm", {2.0}}, {"w", {2.0}}};
  AdamWState state;
  AdamWConfig config = {.decay = 0.5, .decayed = [](const std::string& n) { return n == "w"; }};
  adamw_step(config, 0.1, {{"norm", {0.0}}, {"w", {0.0}}}, p, state);
  EXPECT_DOUBLE_EQ(p["norm"][0], 2.0);
  EXPECT_DOUBLE_EQ(p["w"][0], 2.0 - 0.1 * 0.5 * 2.0);
}

TEST(ReferenceAdamW, MissingGradientIsRefused) {
  Tensors p = {{"w", {2.0}}};
  AdamWState state;
  EXPECT_THROW(adamw_step({}, 0.1, {}, p, state), Error);
}

}  // namespace
}  // namespace gangway::reference
