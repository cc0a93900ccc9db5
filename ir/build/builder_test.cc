#include "ir/build/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/build/tree.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;

template <class F>
std::string message_of(const F& f) {
  const Error error = error_of(f);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << error.what();
  return error.what();
}

TEST(Builder, TracesAnEquation) {
  Builder b("loss");
  Value x = b.parameter("x", f32({8, 16})), w = b.parameter("w", f32({16, 4}));
  b.result("loss", mean(square(dot(x, w) * 2 + 1)));
  Function f = b.build();
  EXPECT_EQ(f.parameters.size(), 2u);
  EXPECT_EQ(f.types[f.results[0]], f32());
  EXPECT_EQ(f.nodes.size(), f.infos.size());
}

TEST(Builder, AnyUseOfAValueOfABuiltOrDestroyedFunctionIsRefused) {
  Value gone;
  {
    Builder dropped("dropped");
    gone = dropped.parameter("x", f32({4}));
  }
  Builder b("built");
  const Value x = b.parameter("x", f32({4}));
  b.result("y", x);
  b.build();
  const Value later = b.parameter("x", f32());  // A value of another function.
  for (const auto& [value, name] : {std::pair{x, "built"}, {gone, "dropped"}}) {
    const auto expected = HasSubstr(
        cat("value: this value belongs to function \"", name, "\", which is already built"));
    EXPECT_THAT(message_of([&] { value.type(); }), expected);
    EXPECT_THAT(message_of([&] { value.dim(0); }), expected);
    EXPECT_THAT(message_of([&] { value + 1.0; }), expected);
    EXPECT_THAT(message_of([&] { later + value; }), expected);
    EXPECT_THAT(message_of([&] { sum(value); }), expected);
    EXPECT_THAT(message_of([&] { b.result("y", value); }), expected);
    EXPECT_THAT(message_of([&] { gradients(value, {value}); }), expected);
    EXPECT_FALSE(value.empty());
  }
  EXPECT_EQ(later.type(), f32());
}

TEST(Builder, AScalarMayBeAnnotatedAsReplicated) {
  Builder b("loss", Mesh{{{"data", 2}}});
  const Value x = b.parameter("x", f32({8}), {{"data", shard(0)}});
  const Value total = sum(x);
  EXPECT_THAT(message_of([&] { b.shard(total, {{"data", shard(0)}}); }),
              HasSubstr("axis \"data\" cuts dimension 0"));
  b.result("loss", b.shard(total, {{"data", replicate()}}));
  EXPECT_EQ(b.build().types.back(), f32());
}

// Part of a model: what it builds is its caller's line.
Value scaled_sum(Value x, Loc loc = Loc::current()) {
  const LocScope at(loc);
  return sum(x * 2);
}
Value twice_scaled_sum(Value x, Loc loc = Loc::current()) {
  const LocScope at(loc);
  return scaled_sum(x) + scaled_sum(x);
}

TEST(Builder, NodesOfAModelFunctionNameTheLineOfItsCaller) {
  Builder b("loss");
  Value x = b.parameter("x", f32({8}));
  const int line = __LINE__ + 1;
  Value loss = twice_scaled_sum(x);
  for (NodeId node = 0; node < b.function().nodes.size(); ++node)
    EXPECT_EQ(line_of(b.function(), node), cat("builder_test.cc:", line));
  EXPECT_GE(b.function().nodes.size(), 5u);
  Value after = neg(loss);
  EXPECT_EQ(line_of(b.function(), static_cast<NodeId>(b.function().nodes.size() - 1)),
            cat("builder_test.cc:", __LINE__ - 2))
      << "the scope has ended";
  EXPECT_FALSE(after.empty());
}

TEST(Builder, AnErrorInsideAModelFunctionNamesTheLineOfItsCaller) {
  Builder b("loss");
  Value x = b.parameter("x", f32({8, 4})), w = b.parameter("w", f32({8, 4}));
  auto layer = [&](Loc loc) {
    const LocScope at(loc);
    return dot(x, w);
  };
  const int line = __LINE__ + 1;
  EXPECT_THAT(message_of([&] { layer(Loc::current()); }), HasSubstr(cat("builder_test.cc:", line)));
}

TEST(Builder, BroadcastsAsNumPyDoes) {
  Builder b("f");
  Value x = b.parameter("x", f32({8, 1, 4})), y = b.parameter("y", f32({3, 1}));
  EXPECT_EQ((x + y).type(), f32({8, 3, 4}));
  EXPECT_EQ((1 - x).type(), f32({8, 1, 4}));
  EXPECT_EQ(where(gt(x, 0), 1.0, y).type(), f32({8, 3, 4}));
}

TEST(Builder, AnOperandCanBeALeafOfATree) {
  Builder b("f");
  Tree params;
  params.set("w", b.parameter("w", f32({4})));
  Value x = b.parameter("x", f32({4}));
  EXPECT_EQ((x * params["w"]).type(), f32({4}));
  EXPECT_EQ((-params["w"]).type(), f32({4}));
}

TEST(Builder, AMisfitNamesTheOpBothShapesAndTheUsersLine) {
  Builder b("moe_loss");
  Value x = b.parameter("x", bf16({64, 128, 512})), w = b.parameter("w", bf16({256, 512}));
  int line = 0;
  std::string message = message_of([&] {
    line = __LINE__ + 1;
    dot(x, w);
  });
  EXPECT_THAT(message,
              HasSubstr("dot: contracted sizes differ: lhs dim 2 is 512 in bf16[64, 128, 512], rhs "
                        "dim 0 is 256 in bf16[256, 512]"));
  EXPECT_THAT(message, HasSubstr("in function \"moe_loss\""));
  EXPECT_THAT(message, HasSubstr("at builder_test.cc:" + std::to_string(line)));
}

TEST(Builder, AnOperatorKnowsItsLineToo) {
  Builder b("f");
  Value x = b.parameter("x", f32({8})), y = b.parameter("y", f32({7}));
  int line = 0;
  std::string message = message_of([&] {
    line = __LINE__ + 1;
    x + y;
  });
  EXPECT_THAT(message, HasSubstr("add: shapes do not broadcast: lhs is f32[8], rhs is f32[7]"));
  EXPECT_THAT(message, HasSubstr("at builder_test.cc:" + std::to_string(line)));
}

TEST(Builder, ElementTypesAreNeverMixedSilently) {
  Builder b("f");
  Value x = b.parameter("x", f32({8})), y = b.parameter("y", bf16({8}));
  EXPECT_THAT(message_of([&] { x* y; }), HasSubstr("convert()"));
}

TEST(Builder, ValuesOfTwoFunctionsDoNotMix) {
  Builder a("a"), b("b");
  Value x = a.parameter("x", f32()), y = b.parameter("y", f32());
  EXPECT_THAT(message_of([&] { x + y; }), HasSubstr("belongs to another function: \"b\""));
  EXPECT_THAT(message_of([&] { exp(Value()); }), HasSubstr("empty"));
}

TEST(Builder, EveryNodeKnowsItsLineAndScopes) {
  Builder b("train_step");
  Value x = b.parameter("x", f32());
  int line = 0;
  {
    Builder::Scope layers(b, "layers");
    Builder::Scope first(b, "0");
    line = __LINE__ + 1;
    exp(x);
  }
  EXPECT_EQ(where(b.function(), 0), "builder_test.cc:" + std::to_string(line) + " in 0 in layers");
}

TEST(Builder, PlacesAreStoredOnce) {
  Builder b("f");
  Value x = b.parameter("x", f32());
  for (int i = 0; i < 10; ++i) x = exp(x);
  EXPECT_EQ(b.function().locs.size(), 1u);
}

TEST(Builder, DerivedNodesCarryTheLineOfTheirOrigin) {
  Builder b("f");
  Value x = b.parameter("x", f32());
  exp(x);
  {
    Builder::Derived derived(b, 0, Reason::kGradient);
    log(x);
  }
  EXPECT_EQ(line_of(b.function(), 1), line_of(b.function(), 0));
  EXPECT_EQ(b.function().infos[1].origin, 0u);
  EXPECT_EQ(b.function().infos[1].reason, Reason::kGradient);
}

TEST(Builder, ARegionWithinARegionIsPartOfIt) {
  Builder b("f");
  Value x = b.parameter("x", f32());
  exp(x);
  {
    Builder::Region outer(b);
    exp(x);
    Builder::Region inner(b);
    exp(x);
  }
  std::vector<uint32_t> regions;
  for (const Node& node : b.function().nodes) regions.push_back(node.region);
  EXPECT_EQ(regions, (std::vector<uint32_t>{0, 1, 1}));
}

TEST(Builder, AttributesAreChecked) {
  Builder b("f");
  Value x = b.parameter("x", f32({4}));
  auto emit = [&](Op op, Attrs attrs) { b.emit(op, {x}, attrs, Loc::current()); };
  EXPECT_THAT(message_of([&] { emit(Op::exp, {{"axis", int64_t{0}}}); }),
              HasSubstr("exp: unknown attribute: axis"));
  EXPECT_THAT(message_of([&] { emit(Op::cumsum, {}); }),
              HasSubstr("cumsum: attribute axis is missing"));
  EXPECT_THAT(message_of([&] { emit(Op::cumsum, {{"axis", true}}); }),
              HasSubstr("expected int, got bool"));
  EXPECT_THAT(message_of([&] { emit(Op::add, {}); }),
              HasSubstr("add: wrong number of operands: expected 2, got 1"));
}

// In the words of a user: a number takes the other operand's type, and `i * 0.5` was `i * 0`.
TEST(Builder, ANumberThatTheTypeOfTheOtherOperandDoesNotHaveIsRefusedWithTheUsersLine) {
  Builder b("f");
  const Value i = b.parameter("i", i32({4})), x = b.parameter("x", f32({4}));
  const Value half = b.parameter("half", bf16({4})),
              flag = b.parameter("flag", Type{DType::kBool, {4}});
  int line = 0;
  const std::string message = message_of([&] {
    line = __LINE__ + 1;
    i * 0.5;
  });
  EXPECT_THAT(message, HasSubstr("value can't be 0.5 in i32: expected a whole number from "
                                 "-2147483648 to 2147483647"));
  EXPECT_THAT(message, HasSubstr("convert()"));
  EXPECT_THAT(message, HasSubstr(cat("at builder_test.cc:", line)));
  const std::string refused = "value can't be ";
  EXPECT_THAT(message_of([&] { lt(i, 1.5); }), HasSubstr(refused));
  EXPECT_THAT(message_of([&] { i + 3e9; }), HasSubstr(refused));
  EXPECT_THAT(message_of([&] { maximum(std::numeric_limits<int64_t>::max(), i); }),
              HasSubstr(refused));
  EXPECT_THAT(message_of([&] { where(flag, i, -std::numeric_limits<double>::infinity()); }),
              HasSubstr(refused));
  EXPECT_THAT(message_of([&] { where(flag, flag, 2); }), HasSubstr(refused));
  EXPECT_THAT(message_of([&] { x * 1e39; }), HasSubstr(refused));
  EXPECT_THAT(message_of([&] { x + 1e-60; }),
              HasSubstr("value can't be 1e-60: that is too small for f32: it would become 0"));
  EXPECT_THAT(message_of([&] { half - std::numeric_limits<float>::max(); }), HasSubstr(refused));
  EXPECT_THAT(message_of([&] { constant_like(i, 0.25); }), HasSubstr(refused));
  EXPECT_THAT(message_of([&] { pad(i, 0, 1, 0, 0.25); }), HasSubstr(refused));
  i * 2;
  i + -2147483648.0;
  lt(i, 1e9);
  where(flag, flag, 0);
  x * 0.1 + std::numeric_limits<float>::max();
  where(flag, x, -std::numeric_limits<double>::infinity());
  half * 0.1;
}

// C++ would compare two handles, and take the answer as a number or as a condition.
template <class A, class B>
concept Multiplies = requires(A a, B b) { a* b; };
template <class A, class B>
concept Compares = requires(A a, B b) { a == b; };
template <class A>
concept Decides = requires(A a) { a ? 1 : 0; };
static_assert(Multiplies<Value, Value> && Multiplies<Value, int> && Multiplies<double, Value>);
static_assert(!Compares<Value, Value> && !Compares<Value, double>, "x * (x == y) compiles");
static_assert(!Multiplies<Value, bool>, "x * (a.size() == b.size()) compiles");
static_assert(!Decides<Value>, "if (lt(x, 0)) compiles, and is always taken");
static_assert(!Decides<Tree> && !Compares<Tree, Tree>);

TEST(Builder, AnOpThatGivesIndicesIsRefusedWhereItsTypeCannotCountThem) {
  Builder b("f");
  const int64_t most = int64_t{1} << 31;
  EXPECT_EQ(iota(b, i32({2, most}), 1).dim(1), most);
  EXPECT_EQ(iota(b, i32({2, most + 1}), 0).dim(1), most + 1);
  int line = 0;
  const std::string message = message_of([&] {
    line = __LINE__ + 1;
    iota(b, i32({2, most + 1}), 1);
  });
  EXPECT_THAT(message, HasSubstr("iota: dim 1 is too long for i32 to count its positions: expected "
                                 "at most 2147483648, got 2147483649"));
  EXPECT_THAT(message, HasSubstr(cat("at builder_test.cc:", line)));
  const std::string refused = "is too long for ";
  EXPECT_EQ(iota(b, bf16({257}), 0).dim(0), 257);
  EXPECT_THAT(message_of([&] { iota(b, bf16({258}), 0); }), HasSubstr(refused));
  EXPECT_THAT(message_of([&] { iota(b, f32({(1 << 24) + 2}), 0); }), HasSubstr(refused));
  const Value x = b.parameter("x", f32({most + 1}));
  EXPECT_THAT(message_of([&] { argmax(x); }), HasSubstr(refused));
  EXPECT_THAT(message_of([&] { top_k(x, 2); }), HasSubstr(refused));
  EXPECT_THAT(message_of([&] { sort(x); }), HasSubstr(refused));
  EXPECT_THAT(message_of([&] { cross_entropy(x, b.parameter("label", i32())); }),
              HasSubstr(refused));
  const Value few = b.parameter("few", i32({1, 4, 2}));
  EXPECT_THAT(message_of([&] { moe_route(few, 1 << 20, 1 << 12); }), HasSubstr(refused));
  const Value many = b.parameter("many", i32({1, most / 2 + 1, 2}));
  EXPECT_THAT(message_of([&] { moe_route(many, 8); }), HasSubstr(refused));
}

TEST(Builder, SizesThatOverflowAreRefused) {
  Builder b("f");
  Value x = b.parameter("x", f32({4}));
  int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(message_of([&] { pad(x, 0, huge, huge); }), HasSubstr("pad: "));
  EXPECT_THAT(message_of([&] { reshape(x, {huge, huge}); }), HasSubstr("reshape: "));
  EXPECT_THAT(message_of([&] { broadcast_to(x, {huge, 4}); }), HasSubstr("broadcast: "));
  EXPECT_THAT(message_of([&] { slice(x, 0, -huge, huge); }), HasSubstr("slice: "));
  const int64_t odd = (int64_t{1} << 62) + 1;
  EXPECT_THAT(message_of([&] { reshape(x, {-1, 4, odd}); }), HasSubstr("reshape: no size fits"));
  Value most = b.parameter("most", f32({kElementsMax}));
  const std::vector<Value> many(65'537, most);  // 2^64 + 2^48 elements.
  EXPECT_THAT(message_of([&] { concat(many, 0); }), HasSubstr("concat: the result is too large"));
}

TEST(Builder, ParametersComeFirstHoweverLateTheyAreDeclared) {
  Builder b("late");
  Value x = b.parameter("x", f32({2}));
  Value y = exp(x);
  Value late = b.parameter("late", f32({2}));
  b.result("z", y + late);
  Function f = b.build();
  EXPECT_EQ(f.parameters[1].name, "late");
  EXPECT_EQ(f.nodes[0].first_result, 2u);
  EXPECT_EQ(f.nodes[1].inputs, (std::vector<ValueId>{2, 1}));
  EXPECT_EQ(f.results, std::vector<ValueId>{3});
}

}  // namespace
}  // namespace gangway
