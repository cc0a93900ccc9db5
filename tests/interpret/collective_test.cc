// Tests the references of collectives: values by hand, uneven parts, conversions there and back,
// and the bytes that each device sends by the formulas of the op table's rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/build/builder.h"
#include "ir/types/axis_list.h"
#include "runtime/base/error.h"
#include "tests/interpret/collective.h"
#include "tests/interpret/interpret.h"

namespace gangway {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using Inputs = std::vector<std::vector<Literal>>;  // [device][operand]

// The results of one node over a mesh, and the bytes that its devices send.
struct Met {
  std::vector<std::vector<Literal>> results;  // [device][result]
  std::vector<int64_t> sent;                  // [device]
  double cost = 0;                            // Bytes that the op's row states.

  const std::vector<double>& values(size_t device, size_t result = 0) const {
    return results[device][result].values;
  }
};

Met meet(const Mesh& mesh, Op op, const Attrs& attrs, const Inputs& inputs) {
  Builder b("f", mesh);
  std::vector<Value> operands;
  std::vector<Type> types;
  for (const Literal& input : inputs[0]) {
    types.push_back(input.type);
    operands.push_back(b.parameter(cat("p", types.size()), input.type));
  }
  for (const Value& result : b.emit(op, operands, attrs, Loc::current()))
    b.result(cat("r", result.id()), result);
  Function f = b.build();
  f.local = true;
  Met met;
  std::vector<Traffic> traffic;
  met.results = interpret_local(f, inputs, {.traffic = &traffic});
  met.sent = traffic.at(0).sent;
  met.cost = row(op).cost({op, types, f.nodes[0].attrs}).bytes;
  return met;
}

// Device d holds 100 d, 100 d + 1, ..., so that every element shows where it came from.
Inputs numbered(int64_t devices, const Type& type) {
  Inputs inputs;
  for (int64_t d = 0; d < devices; ++d) {
    Literal x = filled(type, 0);
    std::iota(x.values.begin(), x.values.end(), 100.0 * static_cast<double>(d));
    inputs.push_back({x});
  }
  return inputs;
}

Mesh line(int64_t n) { return {{{"data", n}}}; }
const Mesh kSquare{{{"data", 2}, {"model", 2}}};

Attrs on(const char* axes, Attrs attrs = {}) {
  attrs.set("axes", std::string(axes));
  return attrs;
}
Attrs gather(const char* axes, int64_t parts, int64_t size) {
  return on(axes, {{"dim", int64_t{0}}, {"parts", parts}, {"size", size}});
}
Attrs scatter(const char* axes, int64_t parts, const char* reduction = "sum") {
  return on(axes, {{"dim", int64_t{0}}, {"parts", parts}, {"reduction", std::string(reduction)}});
}
Attrs exchange(const char* axes, int64_t parts, int64_t size) {
  return on(
      axes,
      {{"split_dim", int64_t{1}}, {"concat_dim", int64_t{0}}, {"parts", parts}, {"size", size}});
}
Attrs slice(int64_t parts) {
  return {{"axis", std::string("data")}, {"dim", int64_t{0}}, {"parts", parts}};
}

TEST(Collectives, AGatherJoinsPartsInTheOrderOfTheListAndDropsWhatLiesBehind) {
  const Inputs inputs = numbered(4, f32({2}));
  Met met = meet(kSquare, Op::all_gather, gather("data,model", 4, 7), inputs);
  EXPECT_THAT(met.values(3), ElementsAre(0, 1, 100, 101, 200, 201, 300));
  met = meet(kSquare, Op::all_gather, gather("model,data", 4, 7), inputs);
  EXPECT_THAT(met.values(0), ElementsAre(0, 1, 200, 201, 100, 101, 300));
  met = meet(kSquare, Op::all_gather, gather("model", 2, 4), inputs);
  EXPECT_THAT(met.values(2), ElementsAre(200, 201, 300, 301));
}

TEST(Collectives, AScatterPadsTheLastPartWithZeros) {
  Met met = meet(line(3), Op::reduce_scatter, scatter("data", 3), numbered(3, f32({4})));
  EXPECT_THAT(met.values(0), ElementsAre(300, 303));
  EXPECT_THAT(met.values(1), ElementsAre(306, 309));
  EXPECT_THAT(met.values(2), ElementsAre(0, 0));
  met = meet(line(3), Op::reduce_scatter, scatter("data", 3, "min"), numbered(3, f32({5})));
  EXPECT_THAT(met.values(2), ElementsAre(4, 0));
}

TEST(Collectives, AnAllToAllCutsOneDimensionAndJoinsAnother) {
  // Three rows in all, two on each of two devices; three columns, two for each.
  const Met met = meet(line(2), Op::all_to_all, exchange("data", 2, 3), numbered(2, f32({2, 3})));
  EXPECT_EQ(met.results[0][0].type, f32({3, 2}));
  EXPECT_THAT(met.values(0), ElementsAre(0, 1, 3, 4, 100, 101));
  EXPECT_THAT(met.values(1), ElementsAre(2, 0, 5, 0, 102, 0));
}

TEST(Collectives, RaggedRowsComeBySenderAndRowsBeyondTheBoundAreCounted) {
  Inputs inputs = numbered(2, f32({4, 1}));
  inputs[0].push_back({i32({2}), {1, 3}});
  inputs[1].push_back({i32({2}), {2, 1}});
  Met met = meet(line(2), Op::ragged_all_to_all,
                 on("data", {{"parts", int64_t{2}}, {"bound", int64_t{3}}}), inputs);
  EXPECT_THAT(met.values(0), ElementsAre(0, 100, 101));
  EXPECT_THAT(met.values(0, 1), ElementsAre(1, 2));
  EXPECT_THAT(met.values(1), ElementsAre(1, 2, 3));
  EXPECT_THAT(met.values(1, 1), ElementsAre(3, 1)) << "four rows, and room for three";
  // Each device sends the rows for the other one, and their number.
  EXPECT_THAT(met.sent, ElementsAre(3 * 4 + 4, 2 * 4 + 4));
}

TEST(Collectives, RaggedSizesOutOfRangeAreClampedToTheRows) {
  Inputs inputs = numbered(2, f32({4, 1}));
  inputs[0].push_back({i32({2}), {-5, 3}});
  inputs[1].push_back({i32({2}), {3, 2147483647}});
  const Met met = meet(line(2), Op::ragged_all_to_all,
                       on("data", {{"parts", int64_t{2}}, {"bound", int64_t{5}}}), inputs);
  EXPECT_THAT(met.values(0), ElementsAre(100, 101, 102, 0, 0));
  EXPECT_THAT(met.values(0, 1), ElementsAre(0, 3));
  EXPECT_THAT(met.values(1), ElementsAre(0, 1, 2, 103, 0));
  EXPECT_THAT(met.values(1, 1), ElementsAre(3, 1));
}

TEST(Collectives, APermuteSendsToTheNumberInTheOtherOrder) {
  const auto permuted = [](const char* to, int64_t shift) {
    const Met met =
        meet(kSquare, Op::permute, on("data,model", {{"to", std::string(to)}, {"shift", shift}}),
             numbered(4, f32({1})));
    std::vector<double> from;
    for (size_t d = 0; d < 4; ++d) from.push_back(met.values(d)[0] / 100);
    return from;
  };
  EXPECT_THAT(permuted("data,model", 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(permuted("data,model", 1), ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(permuted("data,model", -6), ElementsAre(2, 3, 0, 1));
  // Member 1, at data 0 and model 1, is member 1 of "model,data" at data 1 and model 0: device 2.
  EXPECT_THAT(permuted("model,data", 0), ElementsAre(0, 2, 1, 3));
}

TEST(Collectives, ABroadcastIndexesAndFirstTermsGoByTheMember) {
  const Inputs inputs = numbered(4, f32({1}));
  Met met = meet(kSquare, Op::collective_broadcast, on("model", {{"root", int64_t{1}}}), inputs);
  EXPECT_THAT(met.values(0), ElementsAre(100));
  EXPECT_THAT(met.values(3), ElementsAre(300));
  met = meet(kSquare, Op::axis_index, on("model,data"), Inputs(4));
  EXPECT_THAT(met.values(1), ElementsAre(2));
  EXPECT_THAT(met.values(2), ElementsAre(1));
  met = meet(kSquare, Op::keep_first, on("data"), inputs);
  EXPECT_THAT(met.values(1), ElementsAre(100));
  EXPECT_THAT(met.values(2), ElementsAre(0));
}

TEST(Collectives, PartsOfAnySizeJoinToTheWhole) {
  for (int64_t parts : {1, 2, 3, 5}) {
    for (int64_t rows = 0; rows <= 7; ++rows) {
      SCOPED_TRACE(cat(rows, " rows in ", parts, " parts"));
      const Literal whole = numbered(2, f32({rows, 3}))[1][0];
      const Inputs same(static_cast<size_t>(parts), {whole});
      const Met cut = meet(line(parts), Op::shard_slice, slice(parts), same);
      const Met back = meet(line(parts), Op::all_gather, gather("data", parts, rows), cut.results);
      for (const auto& results : back.results) EXPECT_EQ(results[0], whole);
      EXPECT_THAT(cut.sent, Each(0));

      const Inputs terms = numbered(parts, f32({rows, 3}));
      const Met scattered = meet(line(parts), Op::reduce_scatter, scatter("data", parts), terms);
      const Met sum =
          meet(line(parts), Op::all_gather, gather("data", parts, rows), scattered.results);
      EXPECT_EQ(sum.results, meet(line(parts), Op::all_reduce, on("data"), terms).results);
    }
  }
}

TEST(Collectives, AnAllToAllThereAndBackIsTheSame) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{4, 6}, {5, 7}, {2, 1}, {7, 3}}) {
    SCOPED_TRACE(cat(rows, " x ", columns));
    const Literal whole = numbered(2, f32({rows, columns}))[1][0];
    const Met cut = meet(line(3), Op::shard_slice, slice(3), {{whole}, {whole}, {whole}});
    const Met across = meet(line(3), Op::all_to_all, exchange("data", 3, rows), cut.results);
    Attrs back = exchange("data", 3, columns);
    back.set("split_dim", int64_t{0});
    back.set("concat_dim", int64_t{1});
    EXPECT_EQ(meet(line(3), Op::all_to_all, back, across.results).results, cut.results);
  }
}

TEST(Collectives, PartsThatAreNotTheMembersAreRefused) {
  try {
    meet(line(3), Op::all_gather, gather("data", 2, 4), numbered(3, f32({2})));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.message(), HasSubstr("all_gather of 2 parts: expected 3"));
  }
}

// The bytes that each member of a collective sends of even parts, by the formula of its op.
struct Formula {
  Op op;
  Attrs attrs;
  int64_t bytes;
};

// Formulas for n members, each of which has B bytes of f64[12, 12].
std::vector<Formula> formulas(int64_t n) {
  constexpr int64_t kB = 12 * 12 * 8;
  return {{Op::all_reduce, on("data"), 2 * kB * (n - 1) / n},
          {Op::all_gather, gather("data", n, 12 * n), kB * (n - 1)},
          {Op::reduce_scatter, scatter("data", n), kB * (n - 1) / n},
          {Op::all_to_all, exchange("data", n, 12 * n), kB * (n - 1) / n},
          {Op::permute, on("data", {{"to", std::string("data")}, {"shift", int64_t{1}}}),
           n == 1 ? 0 : kB}};
}

TEST(CollectiveBytes, EachMemberSendsWhatTheRowSays) {
  std::set<Op> held = {Op::ragged_all_to_all, Op::collective_broadcast};  // Tested below.
  for (int64_t n : {1, 2, 3, 4}) {
    for (const Formula& formula : formulas(n)) {
      SCOPED_TRACE(cat(to_string(formula.op), " over ", n));
      const Met met = meet(line(n), formula.op, formula.attrs, numbered(n, f64({12, 12})));
      EXPECT_THAT(met.sent, Each(formula.bytes));
      held.insert(formula.op);
      // An all-reduce and a permute cost by the number of members, which their rows do not know.
      if (formula.op == Op::all_reduce || formula.op == Op::permute) continue;
      EXPECT_EQ(met.cost, static_cast<double>(formula.bytes));
    }
  }
  for (int i = 0; i < kOpCount; ++i)
    EXPECT_EQ(held.contains(static_cast<Op>(i)), row(static_cast<Op>(i)).meets)
        << to_string(static_cast<Op>(i));
}

TEST(CollectiveBytes, ABroadcastIsAChainThatEndsBeforeTheRoot) {
  const Met met = meet(line(4), Op::collective_broadcast, on("data", {{"root", int64_t{2}}}),
                       numbered(4, f32({5})));
  EXPECT_THAT(met.sent, ElementsAre(20, 0, 20, 20));
  EXPECT_EQ(met.cost, 20);
}

TEST(CollectiveBytes, UnevenPartsSendTheirRowsWithoutPadding) {
  // Five rows of eight bytes over three members: two, two and one.
  const Type whole = f32({5, 2}), part = f32({2, 2});
  Met met = meet(line(3), Op::all_gather, gather("data", 3, 5), numbered(3, part));
  EXPECT_THAT(met.sent, ElementsAre(32, 32, 16));
  EXPECT_EQ(met.cost, 32);
  met = meet(line(3), Op::reduce_scatter, scatter("data", 3), numbered(3, whole));
  EXPECT_THAT(met.sent, ElementsAre(24, 24, 32));
  EXPECT_EQ(met.cost, 32);
  // Two columns over three members: one, one and none; the last row of member 2 is dropped.
  met = meet(line(3), Op::all_to_all, exchange("data", 3, 5), numbered(3, part));
  EXPECT_THAT(met.sent, ElementsAre(8, 8, 8));
  EXPECT_EQ(met.cost, 16) << "a member with no column sends both; here its second row is padding";
}

TEST(CollectiveBytes, ARaggedExchangeSendsAtMostItsOperands) {
  Inputs inputs = numbered(3, f32({6, 2}));
  for (std::vector<Literal>& of_device : inputs) of_device.push_back({i32({3}), {0, 6, 0}});
  const Met met = meet(line(3), Op::ragged_all_to_all,
                       on("data", {{"parts", int64_t{3}}, {"bound", int64_t{18}}}), inputs);
  EXPECT_THAT(met.sent, ElementsAre(48 + 8, 8, 48 + 8));
  EXPECT_EQ(met.cost, 48 + 12);
}

TEST(CollectiveBytes, GroupsSendApart) {
  const Met met = meet(kSquare, Op::all_gather, gather("model", 2, 4), numbered(4, f32({2})));
  EXPECT_THAT(met.sent, Each(8));
}

}  // namespace
}  // namespace gangway
