#include "ir/transforms/axis_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/build/scan.h"
#include "ir/text/text.h"
#include "ir/transforms/pipeline.h"
#include "tests/interpret/interpret.h"
#include "tests/support/error_of.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::axis_size_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 8, kDim = 4, kLayers = 3;

// A stack of layers as a scan, trained: weights are cut over "model" where there is such an axis,
// the batch and a state with a row for each sequence over "data".
Program training(const Mesh& mesh) {
  const bool has_model = mesh.axis("model") >= 0;
  const AxisPlacements columns = has_model ? AxisPlacements{{"model", shard(1)}} : AxisPlacements{};
  ProgramBuilder b("training", mesh, 7);
  StateSpec stack = normal(f64({kLayers, kDim, kDim}), 0.3);
  stack.stacked = {.first = 0, .count = kLayers, .name_tail = 1};
  const Value w = b.state("layers.w", stack, columns);
  const Value seen = b.state("seen", zeros(f64({kBatch, kDim})), {{"data", shard(0)}});
  const Value x = b.input("x", f64({kBatch, kDim}), {{"data", shard(0)}});
  const auto loss = [&](const Tree& weights, Value in) {
    const ScanOperands operands{
        .length = kLayers, .carries = in, .stacked = weights, .name = "layer"};
    const Value out = scan(b.builder(), operands, [](const ScanStep& at) -> Scanned {
                        return {.carries = tanh(dot(at.carries, Value(at.slices)))};
                      }).carries;
    return mean(square(out));
  };
  auto [value, gradient] = value_and_grad(loss)(w, x);
  b.update(w, w - Value(gradient) * 0.1);
  b.update(seen, seen * 0.5 + x);
  b.output("loss", value);
  b.output("x_doubled", x * 2.0, {{"data", shard(0)}});
  return b.build();
}

std::string text(const Program& program) { return print(program, {.locations = false}); }

int count(const Function& function, Op op) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == op;
  return found;
}

TEST(AxisSizeTest, AnotherAxisSizeGivesTheProgramThatIsWrittenForThatMesh) {
  for (const int64_t size : {1, 2, 8}) {
    const Mesh one{{{"data", size}}};
    EXPECT_EQ(text(with_axis_size(training({{{"data", 4}}}), 0, "data", size)),
              text(training(one)));
    const Mesh two{{{"data", size}, {"model", 2}}};
    EXPECT_EQ(text(with_axis_size(training({{{"data", 4}, {"model", 2}}}), 0, "data", size)),
              text(training(two)));
    const Mesh inner{{{"data", 2}, {"model", std::min<int64_t>(size, kDim)}}};
    EXPECT_EQ(text(with_axis_size(training({{{"data", 2}, {"model", 2}}}), 0, "model",
                                  inner.axes[1].size)),
              text(training(inner)));
  }
}

TEST(AxisSizeTest, TheGivenProgramStaysAsItWas) {
  const Program program = training({{{"data", 4}}});
  const std::string before = text(program);
  with_axis_size(program, 0, "data", 2);
  EXPECT_EQ(text(program), before);
}

// The program computes the same values, and its collectives are those of the smaller mesh.
TEST(AxisSizeTest, AProgramOnFewerDevicesComputesTheSame) {
  const Program large = training({{{"data", 4}, {"model", 2}}});
  const Program small = with_axis_size(large, 0, "data", 2);
  ASSERT_EQ(small.functions.size(), large.functions.size());
  std::mt19937_64 random(tests::test_seed());
  for (size_t f = 0; f < large.functions.size(); ++f) {
    const std::vector<Literal> arguments = tests::random_arguments(random, *large.functions[f]);
    EXPECT_EQ(interpret(*small.functions[f], arguments), interpret(*large.functions[f], arguments));
  }
  const Compiled compiled = compile_function(*small.functions.back(), {});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(local.mesh, (Mesh{{{"data", 2}, {"model", 2}}}));
  EXPECT_GT(count(local, Op::all_reduce), 0);
  const Program alone = with_axis_size(with_axis_size(small, 0, "data", 1), 0, "model", 1);
  EXPECT_EQ(count(*compile_function(*alone.functions.back(), {}).local.function, Op::all_reduce),
            0);
}

TEST(AxisSizeTest, ScansHaveBodiesOfThatMesh) {
  const Program small = with_axis_size(training({{{"data", 4}}}), 0, "data", 2);
  int bodies = 0;
  for (const auto& function : small.functions) {
    for (const Node& node : function->nodes) {
      if (node.body == nullptr) continue;
      EXPECT_EQ(node.body->mesh, (Mesh{{{"data", 2}}}));
      ++bodies;
    }
  }
  EXPECT_GE(bodies, 2) << "the scan and its adjoint";
}

// The function is called on both; on the slice that stays it must stay.
TEST(AxisSizeTest, AFunctionThatOtherSlicesCallTooIsAnotherOneThere) {
  const Mesh mesh{{{"data", 4}}};
  Builder f("half", mesh);
  const Value x = f.parameter("x", f32({kBatch}), {{"data", shard(0)}});
  f.result("y", x * 0.5);
  const auto half = std::make_shared<const Function>(f.build());
  ProgramBuilder b("both", mesh);
  const uint32_t other = b.slice("other", mesh);
  const ProgramValue given = b.input_on(0, "x", f32({kBatch}), {{"data", shard(0)}});
  const ProgramValue here = b.call(0, "first", half, {given})[0];
  const ProgramValue there = b.call(other, "second", half, {b.transfer(here, other)})[0];
  b.output_of("y", there);
  const Program program = b.build();
  ASSERT_EQ(program.functions.size(), 1u);

  const Program resized = with_axis_size(program, other, "data", 2);
  EXPECT_EQ(resized.slices[0].mesh, mesh);
  EXPECT_EQ(resized.slices[other].mesh, (Mesh{{{"data", 2}}}));
  ASSERT_EQ(resized.functions.size(), 2u);
  EXPECT_EQ(resized.functions[0]->mesh, mesh);
  EXPECT_EQ(resized.functions[1]->mesh, (Mesh{{{"data", 2}}}));
  EXPECT_EQ(resized.functions[1]->name, "half@other");
  for (const ProgramNode& node : resized.nodes) {
    if (node.function == kNone) continue;
    EXPECT_EQ(node.function, node.slice == other ? 1u : 0u);
  }
}

TEST(AxisSizeTest, InvalidAxisSizesAreRefusedWithTheReason) {
  const Program program = training({{{"data", 4}, {"model", 2}}});
  const auto wrong = [&](uint32_t slice, std::string_view axis, int64_t size) {
    const Error error = error_of([&] { with_axis_size(program, slice, axis, size); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    return error.message();
  };
  EXPECT_THAT(wrong(0, "data", 3),
              AllOf(HasSubstr("does not cut f64[8, 4] into equal parts over mesh"),
                    HasSubstr("{data: 3, model: 2}")));
  EXPECT_THAT(wrong(0, "model", 3), HasSubstr("does not cut"));
  EXPECT_EQ(wrong(0, "expert", 2),
            "program \"training\": slice \"main\" has no axis \"expert\" that could have size 2");
  EXPECT_EQ(wrong(0, "data", 0),
            "program \"training\": slice \"main\" has no axis \"data\" that could have size 0");
  EXPECT_EQ(wrong(1, "data", 2), "program \"training\": there is no slice 1");
}

}  // namespace
}  // namespace gangway::axis_size_test
