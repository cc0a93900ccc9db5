#include "programs/models/activations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ir/text/text.h"
#include "programs/models/transformer.h"
#include "tests/support/error_of.h"

namespace gangway::programs {
namespace {

using testing::HasSubstr;
using testing::Not;

TransformerConfig tiny(bool experts) {
  TransformerConfig config{.seq = 8, .dim = 16, .layers = 2, .heads = 2, .hidden = 32};
  if (experts) config.moe = {.experts = 4, .top_k = 2, .groups = 2, .capacity_factor = 1};
  return config;
}

// The traced loss of a model; its annotations are counted.
struct Traced {
  explicit Traced(const TransformerConfig& config) : b("f", Mesh{{{"m", 2}}}) {
    const Tree p =
        transformer_parameters(config).map([&](const std::string& name, const StateSpec& spec) {
          return b.parameter(name, spec.type);
        });
    b.result("loss", transformer_loss(config, p, b.parameter("tokens", i32({4, 8}))).total);
  }

  // Numbers of annotations, by the type of the annotated value; those of the layers count once.
  std::map<std::string, int> annotated() const {
    std::map<std::string, int> count;
    const auto add = [&](const Function& f) {
      for (const Node& node : f.nodes) {
        if (node.op == Op::constrain) ++count[to_string(f.types[node.first_result])];
      }
    };
    add(b.function());
    for (const Node& node : b.function().nodes) {
      if (node.op == Op::scan) add(*node.body);
    }
    return count;
  }

  Builder b;
};

std::map<std::string, int> annotated(TransformerConfig config, const std::string& pattern) {
  config.activations = {{pattern, {{"m", shard(0)}}}};
  return Traced(config).annotated();
}

using Counts = std::map<std::string, int>;

TEST(Activations, EachNameIsWhereItsDescriptionSays) {
  const std::string of_dim = "f32[4, 8, 16]";
  EXPECT_EQ(annotated(tiny(false), "embedded"), (Counts{{of_dim, 1}}));
  EXPECT_EQ(annotated(tiny(false), "residual"), (Counts{{of_dim, 3}})) << "in, between, out";
  for (const char* name : {"attn.in", "attn.mixed", "attn.out", "ffn.in", "ffn.out"}) {
    EXPECT_EQ(annotated(tiny(false), name), (Counts{{of_dim, 1}})) << name;
  }
  EXPECT_EQ(annotated(tiny(false), "ffn.hidden"), (Counts{{"f32[4, 8, 32]", 1}}));
  EXPECT_EQ(annotated(tiny(false), "final"), (Counts{{of_dim, 1}}));
  EXPECT_EQ(annotated(tiny(false), "logits"), (Counts{{"f32[4, 8, 256]", 1}}));
  EXPECT_EQ(annotated(tiny(false), "moe.*"), Counts{});
}

TEST(Activations, ExpertsHaveNamesOfTheirOwn) {
  for (const char* name : {"moe.in", "moe.out"}) {
    EXPECT_EQ(annotated(tiny(true), name), (Counts{{"f32[4, 8, 16]", 1}})) << name;
  }
  EXPECT_EQ(annotated(tiny(true), "moe.rows"), (Counts{{"f32[2, 32, 16]", 2}}))
      << "to the experts and back";
  EXPECT_EQ(annotated(tiny(true), "ffn.*"), Counts{});
  EXPECT_EQ(annotated(tiny(true), "attn.out"), (Counts{{"f32[4, 8, 16]", 1}}));
}

TEST(Activations, ADenseExpertBesideOthersIsAFeedForwardLayer) {
  TransformerConfig config = tiny(true);
  config.moe.residual = true;
  for (const char* name : {"moe.in", "ffn.in", "ffn.out"}) {
    EXPECT_EQ(annotated(config, name), (Counts{{"f32[4, 8, 16]", 1}})) << name;
  }
  EXPECT_EQ(annotated(config, "ffn.hidden"), (Counts{{"f32[4, 8, 32]", 1}}));
}

TEST(Activations, WithoutARuleNothingIsAnnotated) {
  EXPECT_EQ(Traced(tiny(false)).annotated(), Counts{});
  EXPECT_EQ(Traced(tiny(true)).annotated(), Counts{});
}

TEST(Activations, TheFirstMatchingRuleOfEachPriorityApplies) {
  Builder b("f", Mesh{{{"data", 2}, {"model", 2}}});
  const ActivationRules rules = {{"residual", {{"model", shard(1)}}, 1},
                                 {"*", {{"model", shard(2)}}, 1},
                                 {"*", {{"data", shard(0)}}, 0}};
  placed(rules, "residual", b.parameter("x", f32({4, 8, 16})));
  std::vector<std::string> said;
  for (const Node& node : b.function().nodes) {
    if (node.op != Op::constrain) continue;
    said.push_back(cat(node.attrs.integer("priority"), " ", node.attrs.text("placements")));
  }
  EXPECT_THAT(said, testing::ElementsAre("1 model: shard(1)", "0 data: shard(0)"));
}

TEST(Activations, ARuleThatMatchesNoneIsRefused) {
  TransformerConfig config = tiny(false);
  config.activations = {{"attn.*", {{"m", shard(0)}}}, {"residuals", {{"m", shard(0)}}}};
  const std::string message = error_text_of([&] { transformer_parameters(config); });
  EXPECT_THAT(message, HasSubstr("invalid: transformer: the rule \"residuals\" matches no"));
  EXPECT_THAT(message, HasSubstr("there are: embedded, residual, attn.in"));
  EXPECT_THAT(error_text_of([&] { Traced traced(config); }), HasSubstr("\"residuals\""));
}

TEST(Activations, AStepOfGenerationIsNotAnnotated) {
  TransformerConfig config = tiny(false);
  config.activations = {{"*", {{"m", shard(1)}}}};
  Builder b("f", Mesh{{{"m", 2}}});
  const Tree p = transformer_parameters(config).map(
      [&](const std::string& name, const StateSpec& spec) { return b.parameter(name, spec.type); });
  const Tree caches = transformer_caches(config, 1).map(
      [&](const std::string& name, const StateSpec& spec) { return b.parameter(name, spec.type); });
  transformer_decode(config, p, b.parameter("token", i32({1})), b.parameter("position", i32()),
                     caches);
  EXPECT_THAT(print(b.function()), Not(HasSubstr("constrain")));
}

}  // namespace
}  // namespace gangway::programs
