#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/transforms/fusion/fuse_elementwise.h"
#include "tests/cuda/card_suites.h"
#include "tests/cuda/op_checks.h"
#include "tests/interpret/interpret.h"
#include "tests/op_table/case_run.h"

namespace gangway {
namespace {

using op_table::case_seed;
using op_table::OpCase;

using Check = void (&)(OpDevices&, const OpCase&, DType, Rng&);

void check_all(const CardMaker& maker, DType dtype, Check check) {
  SCOPED_TRACE(cat("seed ", case_seed()));
  Rng rng(case_seed());
  OpDevices devices(maker.make(), 2);
  for (const OpCase& test : op_table::all_cases(dtype)) {
    if (test.op != Op::custom_call) check(devices, test, dtype, rng);
  }
}

TEST_P(CardOps, EqualTheReference) { check_all(maker(), dtype(), expect_the_reference); }

TEST_P(CardOps, FusedKernelsEqualTheOpsThatTheyStandFor) {
  check_all(maker(), dtype(), expect_its_parts);
}

// The halves of heads turned by angles of their positions: strips, and elements of a transposed
// tensor, at places of their own.
TEST_P(CardOps, ChainsReadWhereTheirOperandsLie) {
  Builder b("f");
  const auto tensor = [&](const char* name, Dims dims) {
    return b.parameter(name, {dtype(), std::move(dims)});
  };
  const Value x = tensor("x", {2, 4, 3, 32}), turned = tensor("turned", {24, 16});
  const Value angles = broadcast_in(tensor("angles", {4, 16}), {2, 4, 3, 16}, {1, 3});
  b.result("y", slice(x, 3, 0, 16) * angles - slice(x, 3, 16, 32));
  b.result("z", transpose(turned) * 2.0 + tensor("w", {16, 24}));
  Function whole = b.build();
  auto end = static_cast<NodeId>(whole.nodes.size());
  const auto function = std::make_shared<const Function>(fuse_elementwise(whole, end));
  SCOPED_TRACE(cat("seed ", case_seed()));
  Rng rng(case_seed());
  std::vector<Literal> inputs;
  for (size_t p = 0; p < function->parameters.size(); ++p) {
    Literal& input = inputs.emplace_back(filled(function->types[p], 0));
    for (double& value : input.values) value = rng.uniform() - 0.5;
    round_values(input);
  }
  OpDevices devices(maker().make(), 1);
  EXPECT_EQ(op_table::difference(devices.run(function, {inputs})[0],
                                 interpret_local(whole, {inputs})[0], dtype()),
            "");
  EXPECT_EQ(devices.report(), "");
}

}  // namespace
}  // namespace gangway
