// Tests the types that the rules of collectives give, and the words in which they refuse attributes
// that a file may hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "ir/op_table/op.h"
#include "ir/types/limits.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

struct Attempt {
  Op op;
  Attrs attrs;
  std::vector<Type> types = {f32({5, 6})};

  std::vector<Type> types_given() const {
    Attrs all = attrs;
    return infer_types(op, types, all);
  }
  // The rule's refusal; "" if it takes the types.
  std::string refusal() const {
    try {
      types_given();
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      return error.message();
    }
  }
};

// An attempt with attributes that the rule takes, changed by `changes`.
Attempt attempt(Op op, const Attrs& changes, std::vector<Type> types = {f32({5, 6})}) {
  const std::string axes = "data";
  const int64_t parts = 4;
  const std::map<Op, Attrs> taken = {
      {Op::all_gather,
       {{"axes", axes}, {"dim", int64_t{0}}, {"parts", parts}, {"size", int64_t{18}}}},
      {Op::reduce_scatter, {{"axes", axes}, {"dim", int64_t{0}}, {"parts", parts}}},
      {Op::all_to_all,
       {{"axes", axes},
        {"split_dim", int64_t{1}},
        {"concat_dim", int64_t{0}},
        {"parts", parts},
        {"size", int64_t{17}}}},
      {Op::ragged_all_to_all, {{"axes", axes}, {"parts", parts}, {"bound", int64_t{9}}}},
      {Op::permute, {{"axes", axes}, {"to", axes}}},
      {Op::collective_broadcast, {{"axes", axes}, {"root", int64_t{0}}}},
      {Op::shard_slice, {{"axis", axes}, {"dim", int64_t{0}}, {"parts", parts}}}};
  const auto found = taken.find(op);
  Attrs attrs = found == taken.end() ? Attrs{{"axes", axes}} : found->second;
  for (const auto& [name, value] : changes) attrs.set(name, value);
  return {op, attrs, std::move(types)};
}

TEST(CollectiveRules, SizesOfPartsAreRoundedUp) {
  EXPECT_THAT(attempt(Op::all_gather, {}).types_given(), ElementsAre(f32({18, 6})));
  EXPECT_THAT(attempt(Op::reduce_scatter, {}).types_given(), ElementsAre(f32({2, 6})));
  EXPECT_THAT(attempt(Op::all_to_all, {}).types_given(), ElementsAre(f32({17, 2})));
  EXPECT_THAT(attempt(Op::shard_slice, {}).types_given(), ElementsAre(f32({2, 6})));
  EXPECT_THAT(attempt(Op::ragged_all_to_all, {}, {f32({5, 6}), i32({4})}).types_given(),
              ElementsAre(f32({9, 6}), i32({4})));
  EXPECT_THAT(attempt(Op::axis_index, {}, {}).types_given(), ElementsAre(i32()));
  EXPECT_THAT(attempt(Op::permute, {{"shift", int64_t{-3}}}).types_given(),
              ElementsAre(f32({5, 6})));
}

TEST(CollectiveRules, AxesMustBeAListOfNames) {
  for (int i = 0; i < kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    if (row(op).family != OpFamily::kCollective) continue;
    const char* attr = op == Op::shard_slice ? "axis" : "axes";
    std::vector<Type> types(static_cast<size_t>(row(op).inputs_min), f32({5, 6}));
    const auto refusal = [&](const char* axes) {
      return attempt(op, {{attr, std::string(axes)}}, types).refusal();
    };
    EXPECT_THAT(refusal(""), HasSubstr(cat(to_string(op), ": ", attr, " is empty")));
    EXPECT_THAT(refusal("a,,b"), HasSubstr("has an empty name"));
    EXPECT_THAT(refusal("a,b,a"), HasSubstr("names \"a\" twice"));
  }
  EXPECT_THAT(attempt(Op::shard_slice, {{"axis", std::string("a,b")}}).refusal(),
              HasSubstr("shard_slice: axis must be one mesh axis: got \"a,b\""));
  EXPECT_THAT(attempt(Op::permute, {{"to", std::string("data,model")}}).refusal(),
              HasSubstr("permute: to must name the axes \"data\" in some order: got "));
}

TEST(CollectiveRules, PartsLieWithinWhatAMeshMayHave) {
  for (Op op : {Op::all_gather, Op::reduce_scatter, Op::all_to_all, Op::shard_slice}) {
    for (int64_t parts : {int64_t{0}, int64_t{-1}, kMeshDevicesMax + 1, kHuge}) {
      EXPECT_THAT(attempt(op, {{"parts", parts}}).refusal(),
                  HasSubstr(cat(to_string(op), ": parts is out of range: expected 1 to ",
                                kMeshDevicesMax, ", got ", parts)));
    }
  }
}

TEST(CollectiveRules, AResultHasNoMoreThanThePartsHold) {
  EXPECT_EQ(attempt(Op::all_gather, {{"size", int64_t{20}}}).refusal(), "");
  EXPECT_THAT(attempt(Op::all_gather, {{"size", int64_t{21}}}).refusal(),
              HasSubstr("all_gather: size is more than the parts hold: expected at most 4 times "
                        "dim 0 of f32[5, 6], got 21"));
  EXPECT_THAT(attempt(Op::all_to_all, {{"size", int64_t{21}}}).refusal(),
              HasSubstr("all_to_all: size is more than the parts hold"));
  for (int64_t size : {int64_t{-1}, kHuge}) {
    EXPECT_THAT(attempt(Op::all_gather, {{"size", size}}).refusal(), HasSubstr("out of range"));
    EXPECT_THAT(
        attempt(Op::ragged_all_to_all, {{"bound", size}}, {f32({5, 6}), i32({4})}).refusal(),
        HasSubstr("bound is out of range"));
  }
  // Sizes whose product with the parts overflows 64 bits.
  const Type large = f32({kElementsMax, 1});
  EXPECT_EQ(attempt(Op::all_gather, {{"parts", kMeshDevicesMax}, {"size", kElementsMax}}, {large})
                .refusal(),
            "");
}

TEST(CollectiveRules, DimensionsMustBeThoseOfTheOperand) {
  EXPECT_THAT(attempt(Op::all_gather, {{"dim", int64_t{2}}}).refusal(),
              HasSubstr("all_gather: dim is out of range: got 2 for f32[5, 6]"));
  EXPECT_THAT(attempt(Op::reduce_scatter, {}, {f32()}).refusal(),
              HasSubstr("dim is out of range: got 0 for f32[]"));
  EXPECT_THAT(attempt(Op::all_to_all, {{"split_dim", int64_t{0}}}).refusal(),
              HasSubstr("split_dim and concat_dim are both 0: expected different dimensions of "));
}

TEST(CollectiveRules, ReductionsAreOfNumbersAndKnown) {
  EXPECT_THAT(attempt(Op::reduce_scatter, {{"reduction", std::string("mean")}}).refusal(),
              HasSubstr("unknown reduction: expected sum, max or min, got \"mean\""));
  for (Op op : {Op::reduce_scatter, Op::all_reduce, Op::keep_first})
    EXPECT_THAT(attempt(op, {}, {boolean({4})}).refusal(), HasSubstr("bool[4]"));
}

TEST(CollectiveRules, SizesOfRaggedRowsAreOneForEachMember) {
  EXPECT_THAT(
      attempt(Op::ragged_all_to_all, {}, {f32({5}), i32({3})}).refusal(),
      HasSubstr("ragged_all_to_all: sizes has the wrong type: expected i32[4], got i32[3]"));
  EXPECT_THAT(attempt(Op::ragged_all_to_all, {}, {f32(), i32({4})}).refusal(),
              HasSubstr("rows has the wrong rank: expected at least 1 dimension, got f32[]"));
}

TEST(CollectiveRules, RootsAndShiftsAreNumbersOfMembers) {
  for (int64_t root : {int64_t{-1}, kMeshDevicesMax, kHuge})
    EXPECT_THAT(attempt(Op::collective_broadcast, {{"root", root}}).refusal(),
                HasSubstr("root is out of range"));
  for (int64_t shift : {-kHuge, kHuge})
    EXPECT_THAT(attempt(Op::permute, {{"shift", shift}}).refusal(),
                HasSubstr("shift is out of range"));
}

}  // namespace
}  // namespace gangway
