// What the passes make of scans and calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "ir/transforms/pipeline.h"
#include "runtime/base/error.h"
#include "tests/interpret/interpret.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/scan_model.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

const Mesh kMesh{{{"data", 4}}};

int count(const Function& function, Op op) {
  int found = 0;
  for (const Node& node : function.nodes) found += node.op == op;
  return found;
}

TEST(BodyPipeline, AScanOverReplicatedValuesRunsWholeOnEachDevice) {
  const Function global = testing::scan_model_function({}, kMesh);
  const Compiled compiled = compile_function(global, {});
  std::mt19937_64 random(testing::test_seed());
  const std::vector<Literal> arguments = testing::random_arguments(random, global);
  const auto devices = static_cast<size_t>(kMesh.devices());
  const auto results = interpret_local(*compiled.local.function,
                                       std::vector<std::vector<Literal>>(devices, arguments));
  for (const auto& of_device : results) EXPECT_EQ(of_device, interpret(global, arguments));
}

TEST(BodyPipeline, AScanOverASumOfPartsAddsThemUpFirst) {
  Builder b("f", kMesh);
  const Value x = b.parameter("x", f64({8, 2}), {{"data", shard(0)}});
  b.result("y", scan(b, {.length = 2, .carries = sum(x, {0})}, [](const ScanStep& at) -> Scanned {
                  return {.carries = square(Value(at.carries))};
                }).carries);
  const Compiled compiled = compile_function(b.build(), {});
  const Function& local = *compiled.local.function;
  EXPECT_EQ(count(local, Op::all_reduce), 1);
  EXPECT_EQ(count(local, Op::scan), 1);
}

TEST(BodyPipeline, AScanOverACutTensorIsRefusedWithTheUsersLine) {
  Builder b("f", kMesh);
  const Value x = b.parameter("x", f32({8, 2}), {{"data", shard(0)}});
  b.result("y", scan(b, {.length = 2, .carries = x}, [](const ScanStep& at) -> Scanned {
                  return {.carries = at.carries * 2};
                }).carries);
  try {
    compile_function(b.build(), {});
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnimplemented);
    EXPECT_THAT(error.what(), HasSubstr("scan: operand 0, \"carry\", is sharded as"));
    EXPECT_THAT(error.what(), HasSubstr("body_pipeline_test.cc:"));
  }
}

TEST(BodyPipeline, AnAnnotationInsideABodyIsRefusedWithTheUsersLine) {
  Builder b("f", Mesh{{{"data", 2}}});
  const Value x = b.parameter("x", f32({8}));
  int line = 0;
  const Scanned done = scan(b, {.length = 2, .carries = x}, [&](const ScanStep& at) -> Scanned {
    const Value next = Value(at.carries) + 1.0;
    line = __LINE__ + 1;
    return {.carries = at.builder.shard(next, {{"data", shard(0)}})};
  });
  b.result("y", done.carries);
  try {
    static_cast<void>(compile_function(b.build(), {}));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnimplemented);
    EXPECT_THAT(error.what(), HasSubstr("a body is not cut over devices yet"));
    EXPECT_THAT(error.what(), HasSubstr(cat("body_pipeline_test.cc:", line)));
  }
}

}  // namespace
}  // namespace gangway
