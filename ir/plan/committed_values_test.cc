#include "ir/plan/committed_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/transforms/pipeline.h"

namespace gangway::committed_values_test {
namespace {

using testing::UnorderedElementsAre;

// The committed values of a function whose results replace as many parameters, by what gives them.
std::vector<std::string> committed(Builder& b, std::vector<uint32_t> states,
                                   uint32_t finite_result = kNone) {
  CallContext context{.finite_result = finite_result};
  for (uint32_t r = 0; r < states.size(); ++r) context.in_place.push_back({states[r], r});
  const Compiled compiled = compile_function(b.build(), context);
  const Function& local = *compiled.local.function;
  const std::vector<NodeId> makers = producers(local);
  std::vector<std::string> names;
  for (const ValueId value : committed_values(compiled.local)) {
    if (makers[value] == kNone) {
      names.push_back(local.parameters[value].name);
      continue;
    }
    const Node& maker = local.nodes[makers[value]];
    const Node& last = maker.op == Op::fusion ? maker.body->nodes.back() : maker;
    names.push_back(std::string(to_string(last.op)));
  }
  return names;
}

TEST(CommittedValues, ACopiedStateIsCheckedByItsNewValue) {
  Builder b("sgd");
  const Value w = b.parameter("w", f32({8})), count = b.parameter("count", i32());
  b.result("w'", w - exp(w));
  b.result("count'", count + 1);
  EXPECT_THAT(committed(b, {0, 1}), UnorderedElementsAre("sub"));
}

// p, m, v and what else an AdamW step reads.
struct Step {
  Builder b{"adamw"};
  Value p = b.parameter("p", f32({8})), m = b.parameter("m", f32({8})),
        v = b.parameter("v", f32({8})), g = b.parameter("g", f32({8})),
        lr = b.parameter("lr", f32()), one = b.parameter("one", f32());

  void update(Value scale) {
    const AdamwState next = adamw({p, m, v}, g, {lr, one, one, scale}, {});
    b.result("p'", next.p);
    b.result("m'", next.m);
    b.result("v'", next.v);
  }
};

TEST(CommittedValues, AdamwIsCheckedByItsGradientAndItsScalars) {
  Step step;
  step.update(step.b.parameter("scale", f32()));
  EXPECT_THAT(committed(step.b, {0, 1, 2}), UnorderedElementsAre("g", "lr", "one", "scale"));
}

TEST(CommittedValues, AGradientIsLeftOutWhereAScalarIsAsFiniteAsTheSumOfItsSquares) {
  Step step;
  const Value norm = sqrt(sum_squares(step.g) + sum_squares(step.p));
  step.update(minimum(1.0, 1.0 / norm) + norm * 0.0);
  EXPECT_THAT(committed(step.b, {0, 1, 2}), UnorderedElementsAre("lr", "one", "add"));
}

TEST(CommittedValues, AGradientIsLeftOutWhereTheGuardedOutputTellsOfIt) {
  Step step;
  const Value norm = sqrt(sum_squares(step.g));
  step.update(step.b.parameter("scale", f32()));
  step.b.result("loss", norm * 0.0 + sum(step.p));
  EXPECT_THAT(committed(step.b, {0, 1, 2}, 3), UnorderedElementsAre("lr", "one", "scale"));
}

// An infinite norm makes the clipped factor 0, and the update would write 0 times infinity.
TEST(CommittedValues, AMinimumHidesWhatIsNotFinite) {
  Step step;
  step.update(minimum(1.0, 1.0 / sqrt(sum_squares(step.g))));
  EXPECT_THAT(committed(step.b, {0, 1, 2}), UnorderedElementsAre("g", "lr", "one", "min"));
}

}  // namespace
}  // namespace gangway::committed_values_test
