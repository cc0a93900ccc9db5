#include "programs/train/model_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "programs/train/train.h"
#include "tests/support/error_of.h"

namespace gangway::programs {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string refusal(const std::vector<SaidSize>& said) {
  LanguageModelConfig config = quickstart_options().config;
  return error_of([&] { set_sizes(config, said); }).what();
}

TEST(ModelSizes, EachNameSetsItsSizeAndTheLaterOneWins) {
  LanguageModelConfig config = quickstart_options().config;
  set_sizes(config, {{"layers", int64_t{2}, "f:1"},
                     {"dim", int64_t{96}, "f:2"},
                     {"heads", int64_t{6}, "f:3"},
                     {"experts", std::vector<int64_t>{0, 8}, "f:4"},
                     {"capacity_factor", 1.25, "f:5"},
                     {"gated", true, "f:6"},
                     {"dim", int64_t{48}, "--dim"}});
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_EQ(config.model.dim, 48);
  EXPECT_EQ(config.model.heads, 6);
  EXPECT_EQ(config.model.experts, (std::vector<int64_t>{0, 8}));
  EXPECT_EQ(config.model.moe.capacity_factor, 1.25);
  EXPECT_TRUE(config.model.gated);
  EXPECT_EQ(config.model.seq, quickstart_options().config.model.seq);
  EXPECT_EQ(sizes_text(config.model),
            "{\"layers\":2,\"dim\":48,\"heads\":6,\"hidden\":256,\"seq\":128,\"vocab\":256,"
            "\"experts\":[0,8],\"top_k\":2,\"groups\":4,\"capacity_factor\":1.25,"
            "\"residual\":false,\"gated\":true,\"tied\":true}");
}

TEST(ModelSizes, AModelWithoutExpertsSaysNothingOfThem) {
  LanguageModelConfig config = quickstart_options().config;
  set_sizes(config, {{"experts", int64_t{0}, "--experts"}});
  EXPECT_FALSE(has_experts(config.model));
  EXPECT_EQ(sizes_text(config.model),
            "{\"layers\":3,\"dim\":128,\"heads\":4,\"hidden\":256,\"seq\":128,\"vocab\":256,"
            "\"experts\":0,\"gated\":false,\"tied\":true}");
}

TEST(ModelSizes, TheOnlyGateOfATokenIsNotDividedByItselfUnlessTheUserSaysSo) {
  const auto config_with = [](const std::vector<SaidSize>& said) {
    LanguageModelConfig config = quickstart_options().config;
    set_sizes(config, said);
    return config.model;
  };
  const SaidSize one{"top_k", int64_t{1}, "--top-k"}, divided{"renormalize", true, "--renormalize"};
  EXPECT_TRUE(renormalizes(config_with({}).moe));
  EXPECT_THAT(sizes_text(config_with({})), Not(HasSubstr("renormalize")));
  EXPECT_FALSE(renormalizes(config_with({one}).moe));
  EXPECT_THAT(sizes_text(config_with({one})), HasSubstr("\"renormalize\":false"));
  EXPECT_TRUE(renormalizes(config_with({one, divided}).moe));
  EXPECT_THAT(find_size("renormalize")->help, HasSubstr("top_k of 1"));
}

TEST(ModelSizes, ARefusalBeginsWithThePlaceOfTheSize) {
  EXPECT_THAT(refusal({{"width", int64_t{1}, "f:1: \"width\""}}),
              StartsWith("f:1: \"width\": there is no size of this name"));
  EXPECT_THAT(refusal({{"dim", 1.5, "f:2: \"dim\""}}),
              StartsWith("f:2: \"dim\": expected a whole number"));
  EXPECT_THAT(refusal({{"gated", int64_t{1}, "f:2: \"gated\""}}),
              StartsWith("f:2: \"gated\": expected true or false"));
  EXPECT_THAT(refusal({{"layers", int64_t{0}, "--layers"}}), StartsWith("--layers: expected 1 to"));
  EXPECT_THAT(refusal({{"vocab", int64_t{255}, "--vocab"}}), StartsWith("--vocab: expected 256"));
  EXPECT_THAT(refusal({{"experts", std::vector<int64_t>{4, -1, 4}, "--experts"}}),
              StartsWith("--experts: expected 0 to"));
}

TEST(ModelSizes, AContradictionNamesBothSizesAndWhereTheyAreFrom) {
  const std::string heads = refusal({{"dim", int64_t{100}, "f:2"}, {"heads", int64_t{3}, "f:3"}});
  EXPECT_THAT(heads, StartsWith("f:3: heads must divide dim: 3 heads (f:3), dim 100 (f:2)"));
  EXPECT_THAT(refusal({{"dim", int64_t{126}, "f:2"}}),
              StartsWith("f:2: heads must divide dim: 4 heads (the model's own), dim 126 (f:2)"));
  EXPECT_THAT(refusal({{"experts", std::vector<int64_t>{4, 8}, "f:7"}}),
              StartsWith("f:7: experts by layer: expected as many as there are layers, 3"));
  EXPECT_THAT(refusal({{"experts", int64_t{1}, "f:7"}}),
              HasSubstr("top_k is 2 (the model's own), experts 1 (f:7)"));
  EXPECT_THAT(refusal({{"experts", int64_t{0}, "f:7"}, {"top_k", int64_t{2}, "--top-k"}}),
              StartsWith("--top-k: the model has no experts (f:7)"));
  EXPECT_THAT(refusal({{"groups", int64_t{5}, "--groups"}}),
              StartsWith("--groups: groups must divide the batch of a step: 5 groups, batch 32"));
}

}  // namespace
}  // namespace gangway::programs
