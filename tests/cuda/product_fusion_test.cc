// Tests which element-wise chains become one node with the product before them, and that the
// results are the reference's, whether the card's libraries have epilogues or not.
#include "executor/devices/cuda/lower/product_fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/plan/step_map.h"
#include "ir/text/text.h"
#include "ir/transforms/fusion/fuse_elementwise.h"
#include "runtime/base/rng.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/op_devices.h"
#include "tests/interpret/interpret.h"
#include "tests/op_table/case_run.h"

namespace gangway::product_fusion_test {
namespace {

// Adds nodes that use the parameters x[2, 5, 8], w[8, 16] and bias[16].
using Body = std::function<void(Builder&, Value x, Value w, Value bias)>;

LocalFunction function_of(DType dtype, const Body& body) {
  Builder b("f");
  const Value x = b.parameter("x", {dtype, {2, 5, 8}});
  const Value w = b.parameter("w", {dtype, {8, 16}});
  body(b, x, w, b.parameter("bias", {dtype, {16}}));
  Function whole = b.build();
  whole.local = true;
  whole.mesh = {{{"data", 1}}};
  auto commit_begin = static_cast<NodeId>(whole.nodes.size());
  LocalFunction local;
  local.function = std::make_shared<const Function>(fuse_elementwise(whole, commit_begin));
  local.commit_begin = commit_begin;
  return local;
}

struct Merged {
  size_t count = 0, results = 0;  // Merged nodes, and results of the last one.
};

Merged merged(const LocalFunction& local) {
  const LocalFunction made = cuda::fuse_products(local);
  Merged found;
  for (const Node& node : made.function->nodes) {
    if (node.attrs.find(cuda::kProductAttr) != nullptr) found = {found.count + 1, node.results};
  }
  EXPECT_EQ(local.commit_begin - made.commit_begin,
            local.function->nodes.size() - made.function->nodes.size());
  return found;
}

// Runs on a card whose libraries have epilogues, and on one whose libraries do not.
void expect_the_reference(const LocalFunction& local, DType dtype) {
  Rng rng(20260101, 17);
  std::vector<Literal> inputs;
  for (size_t p = 0; p < local.function->parameters.size(); ++p) {
    Literal& input = inputs.emplace_back(filled(local.function->types[p], 0));
    for (double& value : input.values) value = rng.uniform() - 0.5;
    round_values(input);
  }
  const std::vector<Literal> want = interpret_local(*local.function, {inputs})[0];
  for (const uint64_t seed : {2, 3}) {
    SCOPED_TRACE(seed);
    OpDevices devices(emulated::card_maker(seed).make(), 1);
    EXPECT_EQ(op_table::difference(devices.run(local.function, {inputs})[0], want, dtype), "");
    EXPECT_EQ(devices.report(), "");
  }
}

void expect(const Body& body, Merged want) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    const LocalFunction local = function_of(dtype, body);
    SCOPED_TRACE(print(*local.function));
    const Merged got = merged(local);
    EXPECT_EQ(got.count, want.count);
    EXPECT_EQ(got.results, want.results);
    expect_the_reference(local, dtype);
  }
}

TEST(ProductFusion, TakesABiasForEachColumn) {
  expect([](Builder& b, Value x, Value w, Value bias) { b.result("y", dot(x, w) + bias); }, {1, 1});
}

TEST(ProductFusion, TakesASumWithAnotherTensor) {
  expect(
      [](Builder& b, Value x, Value w, Value) {
        const Value residual = b.parameter("residual", {x.dtype(), {2, 5, 16}});
        b.result("y", residual + dot(x, w));
        b.result("z", dot(x, w) + residual);
      },
      {2, 1});
}

TEST(ProductFusion, TakesSumsOfProductsOneAfterAnother) {
  const auto ops = [](const LocalFunction& local) {
    const LocalFunction made = cuda::fuse_products(local);
    std::vector<std::string> names;
    for (const Node& node : made.function->nodes) {
      const bool adds = node.attrs.find(cuda::kProductAttr) != nullptr;
      names.push_back(adds ? "product adds" : std::string(to_string(node.op)));
    }
    return names;
  };
  using Names = std::vector<std::string>;
  const Body of_three = [](Builder& b, Value x, Value w, Value) {
    const Value u = b.parameter("u", w.type()), v = b.parameter("v", w.type());
    b.result("y", dot(x, w) + dot(x, u) + dot(x, v));
  };
  EXPECT_EQ(ops(function_of(DType::kF32, of_three)),
            (Names{"dot", "product adds", "product adds"}));
  expect(of_three, {2, 1});
  const Body with_others = [](Builder& b, Value x, Value w, Value) {
    const Type type{x.dtype(), {2, 5, 16}};
    const Value p = b.parameter("p", type), q = b.parameter("q", type);
    const Value u = b.parameter("u", w.type());
    b.result("y", (dot(x, w) + p) + (q + dot(x, u)));
  };
  EXPECT_EQ(ops(function_of(DType::kF32, with_others)),
            (Names{"fusion", "product adds", "product adds"}));
  expect(with_others, {2, 1});
}

TEST(ProductFusion, TakesTheSlopeOfAGelu) {
  expect(
      [](Builder& b, Value x, Value, Value) {
        const Value pre = b.parameter("pre", {x.dtype(), {2, 5, 16}});
        const Value down = b.parameter("down", {x.dtype(), {16, 8}});
        const Value loss = sum(dot(gelu(pre), down) * x);
        b.result("dpre", gradients(loss, {pre})[0]);
      },
      {1, 1});
}

TEST(ProductFusion, LeavesASumWhoseProductIsNeededElsewhere) {
  expect(
      [](Builder& b, Value x, Value w, Value) {
        const Value product = dot(x, w);
        b.result("y", product + b.parameter("residual", {x.dtype(), {2, 5, 16}}));
        b.result("product", product);
        b.result("twice", product + product);
      },
      {0, 0});
}

TEST(ProductFusion, TakesAnActivation) {
  expect([](Builder& b, Value x, Value w, Value) { b.result("y", gelu(dot(x, w))); }, {1, 1});
  expect([](Builder& b, Value x, Value w, Value) { b.result("y", maximum(dot(x, w), 0.0)); },
         {1, 1});
}

TEST(ProductFusion, TakesAnActivationOfAProductWithItsBias) {
  expect([](Builder& b, Value x, Value w, Value bias) { b.result("y", gelu(dot(x, w) + bias)); },
         {1, 1});
  expect([](Builder& b, Value x, Value w,
            Value bias) { b.result("y", maximum(dot(x, w) + bias, 0.0)); },
         {1, 1});
}

TEST(ProductFusion, KeepsTheProductForWhoNeedsItLater) {
  expect(
      [](Builder& b, Value x, Value w, Value) {
        const Value product = dot(x, w);
        const Value y = gelu(product);
        b.result("y", y);
        b.result("product", product);
        b.result("later", sum(product, {0}));
      },
      {1, 2});
}

TEST(ProductFusion, LeavesAProductThatIsKeptWithoutItsBias) {
  expect(
      [](Builder& b, Value x, Value w, Value bias) {
        const Value product = dot(x, w);
        b.result("y", product + bias);
        b.result("product", product);
      },
      {0, 0});
}

TEST(ProductFusion, LeavesAProductThatIsNeededBeforeItsChain) {
  expect(
      [](Builder& b, Value x, Value w, Value bias) {
        const Value product = dot(x, w);
        const Value first = sum(product, {0, 1});
        b.result("y", gelu(product) * (first + bias));
      },
      {0, 0});
}

TEST(ProductFusion, LeavesChainsThatNoEpilogueDoes) {
  expect([](Builder& b, Value x, Value w, Value bias) { b.result("y", silu(dot(x, w) + bias)); },
         {0, 0});
  expect([](Builder& b, Value x, Value w, Value) { b.result("y", gelu(dot(x, w)) * 2.0); }, {0, 0});
  expect([](Builder& b, Value x, Value w, Value bias) { b.result("y", dot(x, w) * bias); }, {0, 0});
}

TEST(ProductFusion, ASectionBeginsWhereItsNodesAreNow) {
  LocalFunction local = function_of(DType::kF32, [](Builder& b, Value x, Value w, Value bias) {
    b.result("y", sum(gelu(dot(x, w) + bias), {0}));
  });
  const std::vector<Node>& nodes = local.function->nodes;
  const auto product = static_cast<NodeId>(
      std::find_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.op == Op::dot; }) -
      nodes.begin());
  std::vector<LocalFunction::Section> want;
  for (NodeId id = 0; id < nodes.size(); ++id) {
    local.sections.push_back({id, 1000 + id});
    want.push_back({id > product ? id - 1 : id, 1000 + id});
  }
  EXPECT_EQ(cuda::fuse_products(local).sections, want);
}

// Three layers of max(x w, 0) in a scan, whose products are kept; the last node, behind the scan,
// may be behind the commit point.
LocalFunction product_layers(DType dtype, bool scan_commits) {
  std::string text = R"(
body 0 local func @layers(%0 "x": f32[5, 8], %1 "w": f32[8, 8]) mesh {data: 1} {
  %2: f32[5, 8] = dot %0, %1
    {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]}
  %3: f32[5, 8] = constant {dims = [5, 8], dtype = f32, value = 0.0}
  %4: f32[5, 8] = max %2, %3
  return %4 "x", %2 "product"
}
local func @f(%0 "x": f32[5, 8], %1 "w": f32[3, 8, 8]) mesh {data: 1} {
  %2: f32[5, 8] = neg %0
  %3: f32[5, 8], %4: f32[3, 5, 8] = scan %2, %1 {carries = 1, invariants = 0, length = 3} body 0
  %5: f32[5, 8] = neg %3
  return %5 "y", %4 "products"
}
)";
  const std::string name(to_string(dtype));
  for (size_t at = text.find("f32"); at != std::string::npos; at = text.find("f32", at + 1))
    text.replace(at, 3, name);
  LocalFunction local;
  local.function = std::make_shared<const Function>(parse_function(text, "layers.gw"));
  local.commit_begin = static_cast<NodeId>(local.function->nodes.size()) - (scan_commits ? 2 : 0);
  return local;
}

// Fuses chains in the scan's body, as earlier passes do.
LocalFunction with_fused_body(LocalFunction local) {
  Function whole = *local.function;
  for (Node& node : whole.nodes) {
    if (node.op != Op::scan) continue;
    auto end = static_cast<NodeId>(node.body->nodes.size());
    node.body = std::make_shared<const Function>(fuse_elementwise(*node.body, end));
  }
  local.function = std::make_shared<const Function>(std::move(whole));
  return local;
}

const Function& body_of_layers(const Function& function) {
  const auto scan = std::ranges::find(function.nodes, Op::scan, &Node::op);
  return *scan->body;
}

size_t merged_nodes(const Function& body) {
  return static_cast<size_t>(std::ranges::count_if(body.nodes, [](const Node& node) {
    return node.attrs.find(cuda::kProductAttr) != nullptr && node.results == 2;
  }));
}

TEST(ProductFusion, TakesProductsInBodiesOfScans) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const LocalFunction local = with_fused_body(product_layers(dtype, false));
    SCOPED_TRACE(print(*local.function));
    const LocalFunction made = cuda::fuse_products(local);
    EXPECT_EQ(merged_nodes(body_of_layers(*made.function)), 1u);
    expect_the_reference(local, dtype);
  }
}

TEST(ProductFusion, LeavesBodiesThatAreRunBehindTheCommitPoint) {
  const LocalFunction local = with_fused_body(product_layers(DType::kF32, true));
  const LocalFunction made = cuda::fuse_products(local);
  EXPECT_EQ(&body_of_layers(*made.function), &body_of_layers(*local.function));
}

TEST(ProductFusion, SectionsInsideOfScansBeginWhereTheirStepsAreNow) {
  LocalFunction local = with_fused_body(product_layers(DType::kF32, false));
  const StepMap steps(*local.function);
  std::vector<LocalFunction::Section> want;
  uint32_t products = 0;
  for (uint32_t step = 0; step < steps.count(); ++step) {
    local.sections.push_back({step, 1000 + step});
    want.push_back({step - products, 1000 + step});
    const StepMap::Level leaf = steps.path(step).back();
    if (leaf.function->nodes[leaf.node].op == Op::dot) ++products;
  }
  EXPECT_EQ(products, 3u);
  EXPECT_EQ(cuda::fuse_products(local).sections, want);
}

}  // namespace
}  // namespace gangway::product_fusion_test
