#include "checkpoint/tensor_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TensorParts, QueriesKeysAndValuesLieInFilesUnderNamesOfTheirOwn) {
  EXPECT_THAT(names_of_parts("layers.0.attn.qkv", {8, 3, 8}),
              ElementsAre("layers.0.attn.q", "layers.0.attn.k", "layers.0.attn.v"));
  EXPECT_THAT(names_of_parts("attn.qkv", {8, 3, 8}), ElementsAre("attn.q", "attn.k", "attn.v"));
}

TEST(TensorParts, MomentsOfAnOptimizerLieInPartsAsTheirParametersDo) {
  EXPECT_THAT(names_of_parts("adamw.m.params.layers.11.attn.qkv", {8, 3, 8}),
              ElementsAre("adamw.m.params.layers.11.attn.q", "adamw.m.params.layers.11.attn.k",
                          "adamw.m.params.layers.11.attn.v"));
}

TEST(TensorParts, OtherNamesAndShapesLieInFilesAsTheyAre) {
  for (const char* name : {"layers.0.attn.q", "layers.0.qkv", "layers.0.self_attn.qkv", "qkv", ""})
    EXPECT_THAT(names_of_parts(name, {8, 3, 8}), IsEmpty()) << name;
  for (const Dims& shape : {Dims{}, Dims{3}, Dims{8, 24}, Dims{8, 2, 8}})
    EXPECT_THAT(names_of_parts("layers.0.attn.qkv", shape), IsEmpty());
}

}  // namespace
}  // namespace gangway
