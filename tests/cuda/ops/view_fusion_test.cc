// Tests which chains read broadcasts, transposes and slices where they lie, and that the results
// are the reference's.
#include "executor/devices/cuda/lower/view_fusion.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "executor/devices/cuda/lower/lower.h"
#include "executor/replay/diagnosis.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/plan/step_map.h"
#include "ir/text/text.h"
#include "ir/transforms/fusion/fuse_elementwise.h"
#include "ir/transforms/rewrite/rewrite.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_devices.h"
#include "tests/interpret/interpret.h"
#include "tests/op_table/case_run.h"
#include "tests/support/seed.h"

namespace gangway::view_fusion_test {
namespace {

using Body = std::function<void(Builder&)>;

Value tensor(Builder& b, const char* name, DType dtype, Dims dims) {
  return b.parameter(name, {dtype, std::move(dims)});
}

LocalFunction function_of(const Body& body) {
  Builder b("f");
  body(b);
  Function whole = b.build();
  whole.local = true;
  whole.mesh = {{{"data", 1}}};
  auto commit_begin = static_cast<NodeId>(whole.nodes.size());
  LocalFunction local;
  local.function = std::make_shared<const Function>(fuse_elementwise(whole, commit_begin));
  local.commit_begin = commit_begin;
  return local;
}

// Number of broadcasts, transposes and slices that are nodes of the function itself and are read.
size_t views_of(const Function& function) {
  const std::vector<uint32_t> uses = use_counts(function);
  return static_cast<size_t>(std::ranges::count_if(function.nodes, [&](const Node& node) {
    const bool is_view =
        node.op == Op::broadcast || node.op == Op::transpose || node.op == Op::slice;
    return is_view && uses[node.first_result] > 0;
  }));
}

void expect_the_reference(const LocalFunction& local, uint64_t seed) {
  Rng rng(seed, 23);
  std::vector<Literal> inputs;
  for (size_t p = 0; p < local.function->parameters.size(); ++p) {
    Literal& input = inputs.emplace_back(filled(local.function->types[p], 0));
    for (double& value : input.values) value = rng.uniform() - 0.5;
    round_values(input);
  }
  const std::vector<Literal> want = interpret_local(*local.function, {inputs})[0];
  const DType dtype = local.function->types[local.function->results[0]].dtype;
  OpDevices devices(emulated::card_maker(seed).make(), 1);
  EXPECT_EQ(op_table::difference(devices.run(local.function, {inputs})[0], want, dtype), "");
  EXPECT_EQ(devices.report(), "");
}

using OfType = std::function<void(Builder&, DType)>;

// `stay`: number of views that stay nodes of their own.
void expect(const OfType& body, size_t stay) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    const LocalFunction local = function_of([&](Builder& b) { body(b, dtype); });
    SCOPED_TRACE(print(*local.function));
    EXPECT_EQ(views_of(*cuda::fuse_views(local).function), stay);
    expect_the_reference(local, 4);
  }
}

TEST(ViewFusion, ReadsSlicesInStripsAndElementByElement) {
  for (const int64_t first : {0, 8, 5}) {
    SCOPED_TRACE(first);
    expect(
        [&](Builder& b, DType dtype) {
          const Value x = tensor(b, "x", dtype, {3, 4, 32}), y = tensor(b, "y", dtype, {3, 4, 16});
          b.result("z", slice(x, 2, first, first + 16) * y + y);
        },
        0);
  }
}

TEST(ViewFusion, ReadsSlicesThatStepOverElements) {
  expect(
      [](Builder& b, DType dtype) {
        const Value x = tensor(b, "x", dtype, {3, 4, 32});
        const Value even = slice(x, 2, 0, 32, 2), odd = slice(x, 2, 1, 32, 2);
        b.result("z", even * even - odd);
      },
      0);
}

TEST(ViewFusion, ReadsTransposedRowsAndTransposedElements) {
  expect(
      [](Builder& b, DType dtype) {
        const Value x = tensor(b, "x", dtype, {5, 3, 16}), y = tensor(b, "y", dtype, {3, 5, 16});
        b.result("rows", transpose(x, {1, 0, 2}) * y + y);
        const Value u = tensor(b, "u", dtype, {16, 24}), v = tensor(b, "v", dtype, {24, 16});
        b.result("elements", transpose(u, {1, 0}) * v + v);
      },
      0);
}

// Models spread positions over batch and heads like this.
TEST(ViewFusion, ReadsWhatIsSpreadInTheMiddleOrAlongRows) {
  expect(
      [](Builder& b, DType dtype) {
        const Value x = tensor(b, "x", dtype, {2, 6, 3, 16});
        const Value angles = tensor(b, "angles", dtype, {6, 16});
        const Value heads = tensor(b, "heads", dtype, {2, 3});
        const Dims to = {2, 6, 3, 16};
        b.result("z", x * broadcast_in(angles, to, {1, 3}) + broadcast_in(heads, to, {0, 2}));
      },
      0);
}

// The queries are x[batch, seq, heads, dim]. The halves of each head are turned by an angle of its
// position.
TEST(ViewFusion, RotaryEmbeddingsReadHalvesAndAnglesWhereTheyLie) {
  expect(
      [](Builder& b, DType dtype) {
        const Value x = tensor(b, "x", dtype, {2, 4, 3, 32});
        const Dims half = {2, 4, 3, 16};
        const Value cosine = broadcast_in(tensor(b, "cosine", dtype, {4, 16}), half, {1, 3});
        const Value sine = broadcast_in(tensor(b, "sine", dtype, {4, 16}), half, {1, 3});
        const Value left = slice(x, 3, 0, 16), right = slice(x, 3, 16, 32);
        b.result("y", concat({left * cosine - right * sine, right * cosine + left * sine}, 3));
      },
      0);
}

// The chain's elements are cut into [outer, inner] for one of the two; it reads the other by place.
TEST(ViewFusion, ReadsARowAndAColumnThatCutDifferently) {
  expect(
      [](Builder& b, DType dtype) {
        const Value x = tensor(b, "x", dtype, {4, 6, 16});
        const Value row = tensor(b, "row", dtype, {16}), column = tensor(b, "column", dtype, {4});
        b.result("z",
                 x * broadcast_in(row, {4, 6, 16}, {2}) + broadcast_in(column, {4, 6, 16}, {0}));
      },
      0);
}

TEST(ViewFusion, ReadsConditionsAndIntegers) {
  const LocalFunction local = function_of([](Builder& b) {
    const Value which = slice(tensor(b, "which", DType::kBool, {4, 48}), 1, 16, 48);
    const Value x = tensor(b, "x", DType::kI32, {4, 32}), y = tensor(b, "y", DType::kI32, {32});
    const Value turned = transpose(tensor(b, "turned", DType::kI32, {32, 4}));
    b.result("z", where(which, x * broadcast_in(y, {4, 32}, {1}), x - turned));
  });
  EXPECT_EQ(views_of(*cuda::fuse_views(local).function), 0u);
  expect_the_reference(local, 7);
}

TEST(ViewFusion, ALargeOpAloneBecomesAChain) {
  static_assert(cuda::kOwnKernel == 256 * 256);
  const auto rotated = [](Builder& b, DType dtype, int64_t rows) {
    const Value x = tensor(b, "x", dtype, {2, rows, 256}), y = tensor(b, "y", dtype, {rows, 256});
    b.result("z", slice(x, 0, 1, 2) + broadcast_in(y, {1, rows, 256}, {1, 2}));
    b.result("square", transpose(y, {1, 0}) * transpose(y, {1, 0}));
  };
  expect([&](Builder& b, DType dtype) { rotated(b, dtype, 256); }, 0);
  // The sum with a row is a chain at any size, and reads the slice where it lies.
  expect([&](Builder& b, DType dtype) { rotated(b, dtype, 8); }, 2);
}

TEST(ViewFusion, LeavesViewsThatOtherNodesReadToo) {
  expect(
      [](Builder& b, DType dtype) {
        const Value x = tensor(b, "x", dtype, {4, 32}), y = tensor(b, "y", dtype, {4, 16});
        const Value half = slice(x, 1, 16, 32);
        b.result("z", half * y + y);
        b.result("half", half);
        const Value other = slice(x, 1, 0, 16);
        b.result("w", other * y - y);
        b.result("sum", sum(other, {0}));
      },
      2);
}

TEST(ViewFusion, LeavesTransposedElementsThatSeveralChainsRead) {
  const auto twice = [](Builder& b, DType dtype, const std::vector<int64_t>& order) {
    const Value x = tensor(b, "x", dtype, {8, 8, 8}), y = tensor(b, "y", dtype, {8, 8, 8});
    const Value turned = transpose(x, order);
    const Value first = turned * y + y;
    b.result("sums", sum(first, {0, 1, 2}));
    b.result("z", cumsum(first, 0) * turned - y);
  };
  expect([&](Builder& b, DType dtype) { twice(b, dtype, {1, 0, 2}); }, 0);
  expect([&](Builder& b, DType dtype) { twice(b, dtype, {0, 2, 1}); }, 1);
}

// With rows of 12 bf16 a thread would take four elements at a time instead of eight.
TEST(ViewFusion, LeavesRowsThatWouldNarrowTheirChain) {
  const auto of_rows = [](Builder& b, DType dtype, int64_t columns) {
    const Value x = tensor(b, "x", dtype, {8, columns + 8}),
                y = tensor(b, "y", dtype, {8, columns});
    b.result("z", slice(x, 1, 0, columns) * y + y);
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto stays = [&](int64_t columns) {
      return views_of(
          *cuda::fuse_views(function_of([&](Builder& b) { of_rows(b, dtype, columns); })).function);
    };
    EXPECT_EQ(stays(16), 0u);
    EXPECT_EQ(stays(12), dtype == DType::kBF16 ? 1u : 0u);
    EXPECT_EQ(stays(5), 1u);
  }
}

// The op has 65,536 elements, so it is fused. A diagnosis runs it unfused, by the names of its ops.
TEST(ViewFusion, LeavesTheNodesOfADiagnosis) {
  const LocalFunction local = function_of([](Builder& b) {
    const Value x = tensor(b, "x", DType::kF32, {256, 256}), y = tensor(b, "y", DType::kF32, {256});
    b.result("z", x / broadcast_in(y, {256, 256}, {0}));
  });
  OpDevices devices(emulated::card_maker(2).make(), 1);
  const auto steps_of = [&](const LocalFunction& function) {
    std::vector<std::string> steps;
    const auto compiled = devices.device().compiler().compile(function);
    for (uint32_t step = 0; step < compiled->step_count(); ++step)
      steps.push_back(compiled->describe_step(step).what);
    return steps;
  };
  EXPECT_THAT(steps_of(unfuse(local)), testing::Contains("div of f32[256, 256]"));
  EXPECT_THAT(steps_of(local), testing::Contains("fusion of f32[256, 256]"));
}

// A chain reads a slice of a tensor that is `times` as large. `needed`: a later node needs the
// whole tensor too.
LocalFunction sliced(int64_t times, bool needed) {
  return function_of([&](Builder& b) {
    const Value x = cumsum(tensor(b, "x", DType::kF32, {16 * times, 8}), 0);
    const Value y = tensor(b, "y", DType::kF32, {16, 8});
    b.result("z", slice(x, 0, 3, 19) * y + y);
    if (needed) b.result("sum", sum(x, {0, 1}));
  });
}

TEST(ViewFusion, KeepsNoLargeTensorForASmallPart) {
  EXPECT_EQ(views_of(*cuda::fuse_views(sliced(3, false)).function), 0u);
  EXPECT_EQ(views_of(*cuda::fuse_views(sliced(4, false)).function), 1u);
  EXPECT_EQ(views_of(*cuda::fuse_views(sliced(4, true)).function), 0u);
  expect_the_reference(sliced(4, true), 5);
}

TEST(ViewFusion, LeavesNodesBehindTheCommitPoint) {
  const LocalFunction whole = sliced(2, false);
  for (NodeId begin = 0; begin <= whole.function->nodes.size(); ++begin) {
    LocalFunction local = whole;
    local.commit_begin = begin;
    const bool taken = begin == whole.function->nodes.size();
    const LocalFunction made = cuda::fuse_views(local);
    EXPECT_EQ(views_of(*made.function), taken ? 0u : 1u) << begin;
    EXPECT_EQ(made.commit_begin, taken ? begin - 1 : begin);
  }
}

TEST(ViewFusion, ASectionBeginsWhereItsNodesAreNow) {
  LocalFunction local = sliced(2, false);
  const std::vector<Node>& nodes = local.function->nodes;
  const auto view =
      static_cast<NodeId>(std::ranges::find(nodes, Op::slice, &Node::op) - nodes.begin());
  std::vector<LocalFunction::Section> want;
  for (NodeId id = 0; id < nodes.size(); ++id) {
    local.sections.push_back({id, 1000 + id});
    want.push_back({id > view ? id - 1 : id, 1000 + id});
  }
  EXPECT_EQ(cuda::fuse_views(local).sections, want);
}

TEST(ViewFusion, ReadsByViewsInBodiesOfScans) {
  const LocalFunction inner = function_of([](Builder& b) {
    const Value x = tensor(b, "x", DType::kF32, {4, 16});
    const Value w = tensor(b, "w", DType::kF32, {4, 32});
    b.result("x", x * slice(w, 1, 16, 32) + slice(w, 1, 0, 16));
  });
  Function outer;
  outer.name = "f";
  outer.mesh = inner.function->mesh;
  outer.local = true;
  outer.parameters = {{"x", {}}, {"w", {}}};
  outer.types = {f32({4, 16}), f32({3, 4, 32}), f32({4, 16})};
  outer.nodes = {{.op = Op::scan,
                  .inputs = {0, 1},
                  .attrs = {{"carries", int64_t{1}},
                            {"invariants", int64_t{0}},
                            {"length", int64_t{3}},
                            {"reverse", false},
                            {"ahead", int64_t{0}},
                            {"next", int64_t{0}}},
                  .first_result = 2,
                  .results = 1,
                  .body = inner.function}};
  outer.infos.resize(1);
  outer.results = {2};
  outer.result_names = {"x"};
  LocalFunction local;
  local.function = std::make_shared<const Function>(std::move(outer));
  local.commit_begin = 1;
  EXPECT_EQ(views_of(*inner.function), 2u);
  EXPECT_EQ(views_of(*cuda::fuse_views(local).function->nodes[0].body), 0u);
  expect_the_reference(local, 6);
}

// Views of up to four dimensions are drawn at random, in all float types.
TEST(ViewFusion, AnyViewsHaveTheReferencesResults) {
  constexpr uint64_t kSeeds = 60;
  size_t before = 0, after = 0;
  for (uint64_t s = 0; s < kSeeds; ++s) {
    const uint64_t seed = tests::test_seed() + s;
    SCOPED_TRACE(cat("seed ", seed));
    Rng rng(seed, 29);
    const auto upto = [&](uint64_t n) { return static_cast<int64_t>(rng.below(n)); };
    Dims dims;
    for (int64_t d = 2 + upto(3); d > 0; --d) dims.push_back(1 + upto(d == 1 ? 24 : 5));
    if (upto(4) != 0) dims.back() = 8 * (1 + upto(3));
    const DType dtype = std::vector{DType::kF32, DType::kBF16, DType::kF64}[s % 3];
    const auto view = [&](Builder& b, int64_t number) {
      const std::string name = cat("v", number);
      if (const int64_t kind = upto(3); kind == 0) {
        std::vector<int64_t> order(dims.size());
        for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
        for (size_t d = order.size(); d-- > 1;)
          std::swap(order[d], order[static_cast<size_t>(upto(d + 1))]);
        Dims from(dims.size());
        for (size_t d = 0; d < order.size(); ++d) from[static_cast<size_t>(order[d])] = dims[d];
        return transpose(b.parameter(name, {dtype, from}), order);
      } else if (kind == 1) {
        std::vector<int64_t> starts, limits, strides;
        Dims from;
        for (const int64_t size : dims) {
          starts.push_back(upto(4) * (upto(2) == 0 ? 4 : 1));
          strides.push_back(upto(3) == 0 ? 2 : 1);
          limits.push_back(starts.back() + (size - 1) * strides.back() + 1);
          from.push_back(limits.back() + upto(4));
        }
        return b.emit1(Op::slice, {b.parameter(name, {dtype, from})},
                       {{"starts", starts}, {"limits", limits}, {"strides", strides}},
                       Loc::current());
      }
      std::vector<int64_t> map;
      Dims from;
      for (size_t d = 0; d < dims.size(); ++d) {
        if (upto(2) == 0) continue;
        map.push_back(static_cast<int64_t>(d));
        from.push_back(upto(3) == 0 ? 1 : dims[d]);
      }
      return broadcast_in(b.parameter(name, {dtype, from}), dims, map);
    };
    const LocalFunction local = function_of([&](Builder& b) {
      const Value x = b.parameter("x", {dtype, dims});
      const Value first = view(b, 0), second = view(b, 1), third = view(b, 2);
      b.result("y", x * first + second);
      b.result("z", maximum(x, second) - third);
    });
    SCOPED_TRACE(print(*local.function));
    const LocalFunction made = cuda::fuse_views(local);
    before += views_of(*local.function);
    after += views_of(*made.function);
    expect_the_reference(local, seed);
  }
  EXPECT_GT(before, kSeeds);
  EXPECT_LT(after, before / 4);  // Transposed elements that two chains read stay.
}

}  // namespace
}  // namespace gangway::view_fusion_test
