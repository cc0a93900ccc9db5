// Attention over a sequence that is cut over devices equals the whole, with its gradient, and every
// device does the same work.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/op_table/distributed_op.h"
#include "ir/text/text.h"
#include "runtime/base/error.h"
#include "tests/interpret/interpret.h"
#include "tests/numerics/lowered_functions.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::numerics {
namespace {

TEST(RingAttention, EqualsTheWholeFunctionOverAnyMesh) {
  const uint64_t seed = gangway::tests::test_seed();
  const std::vector<Mesh> meshes = {{{{"a", 2}}},           {{{"a", 3}}},
                                    {{{"a", 4}}},           {{{"a", 2}, {"b", 2}}},
                                    {{{"a", 2}, {"b", 3}}}, {{{"a", 2}, {"b", 2}, {"c", 2}}}};
  int rings = 0, stripes = 0;
  for (uint64_t n = 0; n < 180; ++n) {
    std::mt19937_64 random(seed + n);
    const Mesh& mesh = meshes[n % meshes.size()];
    AttentionSizes sizes{
        .batch = 1, .heads = 1, .causal = random() % 3 != 0, .packed = n / meshes.size() % 2 == 0};
    int64_t parts = 1;
    for (const MeshAxis& axis : mesh.axes) {
      switch (random() % 5) {
        case 0: sizes.of_batch.push_back(axis.name), sizes.batch *= axis.size; break;
        case 1: sizes.of_heads.push_back(axis.name), sizes.heads *= axis.size; break;
        default: sizes.of_seq.push_back(axis.name), parts *= axis.size;
      }
    }
    std::ranges::shuffle(sizes.of_seq, random);
    const bool striped = random() % 2 == 0;
    sizes.seq = parts * (striped ? parts : parts + 1);
    CallContext context;
    const Function function = attention_layer(mesh, sizes, context);
    SCOPED_TRACE(cat("GW_TEST_SEED=", seed + n, "\n", print(function, {.locations = false})));
    const std::vector<Literal> arguments = gangway::tests::random_arguments(random, function);
    const Compiled compiled = compile_function(function, context);
    const std::vector<std::string> names = op_names(*compiled.local.function);
    EXPECT_EQ(std::ranges::count(names, "all_gather"), 0);
    EXPECT_EQ(std::ranges::count(names, "scan"), parts > 1 ? 2 : 0);
    EXPECT_EQ(std::ranges::count(names, "all_to_all") > 0, parts > 1 && striped && sizes.causal);
    rings += parts > 1 ? 1 : 0;
    stripes += std::ranges::count(names, "all_to_all") > 0 ? 1 : 0;
    ASSERT_LT(relative_difference(interpret_compiled(compiled, arguments),
                                  interpret(function, arguments)),
              1e-12)
        << print(*compiled.local.function, {.locations = false});
  }
  EXPECT_GT(rings, 120);
  EXPECT_GT(stripes, 30);
}

TEST(RingAttention, EqualsTheWholeFunctionInTheBodyOfAScan) {
  const Mesh mesh{{{"data", 2}, {"context", 2}, {"model", 2}}};
  for (const bool causal : {false, true}) {
    const AttentionSizes sizes{
        .causal = causal, .of_batch = {"data"}, .of_seq = {"context"}, .of_heads = {"model"}};
    CallContext context;
    const Function function = attention_layers(mesh, sizes, context);
    std::mt19937_64 random(gangway::tests::test_seed());
    const std::vector<Literal> arguments = gangway::tests::random_arguments(random, function);
    const Compiled compiled = compile_function(function, context);
    const std::vector<std::string> names = op_names(*compiled.local.function);
    EXPECT_EQ(std::ranges::count(names, "scan"), 4) << "forward and back, a ring in each";
    EXPECT_EQ(std::ranges::count(names, "attention"), 2);
    ASSERT_LT(relative_difference(interpret_compiled(compiled, arguments),
                                  interpret(function, arguments)),
              1e-12)
        << print(*compiled.local.function, {.locations = false});
  }
}

TEST(RingAttention, EveryDeviceDoesTheSameWork) {
  for (int64_t devices : {2, 4, 8}) {
    const Mesh mesh{{{"context", devices}}};
    const AttentionSizes sizes{
        .batch = 1, .seq = 24 * devices, .heads = 1, .width = 1, .of_seq = {"context"}};
    CallContext context;
    const Function function = attention_layer(mesh, sizes, context);
    std::mt19937_64 random(gangway::tests::test_seed());
    std::vector<double> flops(static_cast<size_t>(devices), 0);
    const Compiled compiled = compile_function(function, context);
    interpret_local(
        *compiled.local.function,
        cut(mesh, compiled.parameter_shardings, gangway::tests::random_arguments(random, function)),
        {.attention_flops = &flops});
    const auto [least, most] = std::ranges::minmax(flops);
    EXPECT_LE(most, 1.1 * least) << "on " << devices << " devices";
    // Each pair of a query and a key that it sees takes 2 products forward and 5 backward.
    const double pairs = static_cast<double>(sizes.seq * (sizes.seq + 1) / 2);
    double all = 0;
    for (double of_device : flops) all += of_device;
    EXPECT_EQ(all, pairs * 2 * 7);
  }
}

TEST(RingAttention, TheGraphIsOfOneSizeForAnyNumberOfDevices) {
  std::vector<std::vector<std::string>> of_devices;
  for (int64_t devices : {2, 8}) {
    const AttentionSizes sizes{.seq = 64, .of_seq = {"context"}};
    CallContext context;
    const Function function = attention_layer({{{"context", devices}}}, sizes, context);
    of_devices.push_back(op_names(*compile_function(function, context).local.function));
  }
  EXPECT_EQ(of_devices[0], of_devices[1]);
}

// Bytes that each device sends if {context: devices} cuts dimension `cut_dims[r]` of result r.
std::vector<int64_t> bytes_sent(const Function& function, const std::vector<int>& cut_dims) {
  CallContext context;
  for (int dim : cut_dims) context.result_placements.push_back({{"context", shard(dim)}});
  const Compiled compiled = compile_function(function, context);
  std::mt19937_64 random(gangway::tests::test_seed());
  std::vector<Traffic> traffic;
  interpret_local(*compiled.local.function,
                  cut(function.mesh, compiled.parameter_shardings,
                      gangway::tests::random_arguments(random, function)),
                  {.traffic = &traffic});
  std::vector<int64_t> sent(static_cast<size_t>(function.mesh.devices()), 0);
  for (const Traffic& one : traffic) {
    for (size_t d = 0; d < sent.size(); ++d) sent[d] += one.sent[d];
  }
  return sent;
}

// Bytes that each device sends in attention of x to itself.
std::vector<int64_t> bytes_sent(int64_t devices, bool causal, const Type& x_type) {
  Builder b("attention", {{{"context", devices}}});
  const Value x = b.parameter("x", x_type, {{"context", shard(1)}});
  b.result("y", attention(x, x, x, {.heads = 2, .causal = causal}));
  return bytes_sent(b.build(), {1});
}

TEST(RingAttention, SendsKeysAndValuesRoundOnce) {
  for (int64_t n : {2, 4}) {
    const Type x{DType::kF64, {3, n * n * 2, 6}};
    const int64_t part = x.bytes() / n;
    const std::vector<int64_t> round(static_cast<size_t>(n), 2 * part * (n - 1));
    EXPECT_EQ(bytes_sent(n, false, x), round);
    // Devices also send the stripes of q, k and v, and those of y back. Nothing reads lse.
    const std::vector<int64_t> striped(static_cast<size_t>(n),
                                       2 * part * (n - 1) + 4 * part * (n - 1) / n);
    EXPECT_EQ(bytes_sent(n, true, x), striped);
  }
}

// One node of attention, packed or not, or of its adjoint. All its operands are cut along the
// sequence.
Function one_node(Op op, const Type& x, bool causal, int64_t devices) {
  const int64_t heads = 2;
  const Type lse{x.dtype == DType::kF64 ? DType::kF64 : DType::kF32, {x.dims[0], heads, x.dims[1]}};
  const bool is_packed = op == Op::packed_attention || op == Op::packed_attention_grad;
  std::vector<Type> types(is_packed ? 1 : 3, x);
  if (is_packed) types[0].dims.insert(types[0].dims.begin() + 2, 3);
  if (op == Op::attention_grad || op == Op::packed_attention_grad)
    types.insert(types.end(), {x, lse, x});
  Builder b("one", {{{"context", devices}}});
  std::vector<Value> operands;
  for (const Type& type : types) {
    operands.push_back(b.parameter(cat("operand", operands.size()), type,
                                   {{"context", shard(type == lse ? 2 : 1)}}));
  }
  for (const Value& result :
       b.emit(op, operands, {{"heads", heads}, {"causal", causal}, {"scale", 0.5}}, {}))
    b.result(cat("result", result.id()), result);
  return b.build();
}

TEST(RingAttention, SendsTheBytesThatPropagationCounts) {
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF64}) {
    for (const int64_t n : {2, 4}) {
      for (const int64_t rows : {2 * n, 2 * n + 1}) {  // A device's rows; 2 n can go in stripes.
        for (const bool causal : {false, true}) {
          const Type x{dtype, {3, n * rows, 6}};
          for (const Op op : {Op::attention, Op::attention_grad, Op::packed_attention,
                              Op::packed_attention_grad}) {
            SCOPED_TRACE(cat(to_string(op), " ", to_string(x), " over ", n, " causal ", causal));
            const Function function = one_node(op, x, causal, n);
            const Node& node = function.nodes[0];
            const OpCall call{op, {function.types.data(), node.inputs.size()}, node.attrs};
            const double counted = distributed_op_of(op, "ring_attention").sent_bytes(call, n);
            std::vector<int> cut_dims(function.results.size(), 1);
            if (op == Op::attention || op == Op::packed_attention) cut_dims[1] = 2;
            EXPECT_EQ(bytes_sent(function, cut_dims),
                      std::vector<int64_t>(static_cast<size_t>(n), std::llround(counted)));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace gangway::numerics
