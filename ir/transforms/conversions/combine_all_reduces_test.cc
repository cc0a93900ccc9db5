#include "ir/transforms/conversions/combine_all_reduces.h"

#include <gtest/gtest.h>

#include <random>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/text/text.h"
#include "ir/transforms/conversions/partition.h"
#include "ir/transforms/rewrite/simplify.h"
#include "ir/types/limits.h"
#include "ir/verify/verify.h"
#include "tests/interpret/interpret.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::combine_all_reduces_test {
namespace {

const Mesh kMesh{{{"data", 2}, {"model", 2}}};

Value all_reduce(Value x, const std::string& axes, const std::string& reduction = "sum") {
  return x.builder().emit1(Op::all_reduce, {x}, {{"axes", axes}, {"reduction", reduction}},
                           Loc::current());
}

Function combined(Builder& b) {
  Function local = b.build();
  local.local = true;
  return combine_all_reduces(local);
}

int meetings(const Function& function) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == Op::all_reduce;
  return found;
}

TEST(CombineAllReduces, IndependentAllReducesBecomeOneMeeting) {
  Builder b("f", kMesh);
  Value x = b.parameter("x", f32({4})), y = b.parameter("y", f32({2, 2}));
  b.result("x", all_reduce(exp(x), "data"));
  b.result("y", all_reduce(tanh(y), "data"));
  const Function now = combined(b);
  EXPECT_EQ(meetings(now), 1);
  EXPECT_EQ(now.nodes.back().inputs.size(), 2u);
}

TEST(CombineAllReduces, AllReducesThatNeedOneAnotherStayApart) {
  Builder b("f", kMesh);
  Value once = all_reduce(b.parameter("x", f32({4})), "data");
  b.result("x", all_reduce(tanh(once), "data"));
  EXPECT_EQ(meetings(combined(b)), 2);
}

TEST(CombineAllReduces, AllReducesOverOtherAxesOrWithOtherReductionsStayApart) {
  Builder b("f", kMesh);
  Value x = b.parameter("x", f32({4}));
  b.result("sum", all_reduce(x, "data"));
  b.result("max", all_reduce(x, "data", "max"));
  b.result("other", all_reduce(x, "model"));
  EXPECT_EQ(meetings(combined(b)), 3);
}

// The gradients of a step: computed from the last layer to the first, used in the other order.
TEST(CombineAllReduces, ABucketStandsWhereItsLastOperandIsMadeAndIsFullAtSomeMegabytes) {
  Builder b("f", kMesh);
  const Type half = f32({kBucketBytesMax / 8}), tiny = f32({2});
  Value x = b.parameter("x", half), y = b.parameter("y", tiny);
  std::vector<Value> made;
  for (int i = 0; i < 3; ++i) {
    made.push_back(x = tanh(x));
    made.push_back(y = tanh(y));
  }
  for (size_t i = made.size(); i-- > 0;) b.result(cat("r", i), all_reduce(made[i], "data"));
  const Function now = combined(b);
  std::vector<size_t> operands;  // Number of operands of each all-reduce; 0 for other nodes.
  for (const Node& node : now.nodes)
    operands.push_back(node.op == Op::all_reduce ? node.inputs.size() : 0);
  EXPECT_EQ(operands, (std::vector<size_t>{0, 0, 2, 0, 0, 2, 0, 0, 2}));
}

TEST(CombineAllReduces, ABucketHasNoMoreOperandsThanANodeMayHave) {
  Builder b("f", kMesh);
  Value x = b.parameter("x", f32()), total = x;
  for (size_t i = 0; i <= kInputsMax; ++i) total = total + all_reduce(x, "data");
  b.result("total", total);
  const Function now = combined(b);
  EXPECT_EQ(meetings(now), 2);
  EXPECT_EQ(verify(now).size(), 0u);
}

// A global function cut over the mesh, before any meeting is combined.
struct Cut {
  Function local;
  std::vector<Sharding> parameters;
};
Cut cut_over(const Function& global) {
  Cut cut;
  for (const Parameter& parameter : global.parameters)
    cut.parameters.push_back(resolve(global.mesh, parameter.placements));
  const Function simplified = simplify(global);
  const Propagation propagation = propagate_shardings(simplified, cut.parameters);
  cut.local = simplify(partition(simplified, propagation, cut.parameters, {}).function);
  return cut;
}

std::vector<std::vector<Literal>> on_two_devices(const Cut& cut,
                                                 const std::vector<Literal>& whole) {
  std::vector<std::vector<Literal>> arguments(2);
  for (size_t device = 0; device < 2; ++device) {
    for (size_t i = 0; i < whole.size(); ++i) {
      const Placement& placement = cut.parameters[i][0];
      arguments[device].push_back(placement == replicate() ? whole[i]
                                                           : part_of(whole[i], placement.dim, 2,
                                                                     static_cast<int64_t>(device)));
    }
  }
  return arguments;
}

TEST(CombineAllReduces, RandomGraphsComputeTheSameBitsInFewerMeetings) {
  const uint64_t seed = tests::test_seed();
  int before = 0, after = 0;
  for (uint64_t graph = 0; graph < 100; ++graph) {
    std::mt19937_64 random(seed + graph);
    const Mesh mesh{{{"data", 2}}};
    const Function global = tests::random_batch_function(random, mesh, DType::kF32);
    const Cut cut = cut_over(global);
    const Function now = combine_all_reduces(cut.local);
    const auto arguments = on_two_devices(cut, tests::random_arguments(random, global));
    SCOPED_TRACE(cat("GW_TEST_SEED=", seed + graph));
    require_valid(now);
    ASSERT_EQ(interpret_local(now, arguments), interpret_local(cut.local, arguments))
        << print(cut.local, {.locations = false}) << print(now, {.locations = false});
    before += meetings(cut.local);
    after += meetings(now);
  }
  EXPECT_LT(after, before * 3 / 4);
}

}  // namespace
}  // namespace gangway::combine_all_reduces_test
