// A user who compiles a program gets errors in its shardings with lines of the user's own code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "client/client.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/build/scan.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Mesh kMesh{{{"data", 2}, {"model", 2}}};

std::string here(int line) { return cat("bad_shardings_test.cc:", line); }

void expect_invalid(const std::function<void()>& body, const testing::Matcher<std::string>& text) {
  const Error error = error_of(body);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << error.what();
  EXPECT_THAT(std::string(error.what()), text);
}

TEST(BadShardings, TwoAnnotationsInConflictAreNamedWithBothLinesByCompile) {
  const Client client = connect("local:1x4", {.in_process = true, .memory_bytes = 64 << 20});
  const Slice slice = client.allocate({.devices = 4});
  ProgramBuilder b("step", slice.mesh(kMesh.axes));
  const Value x = exp(b.input("x", f32({8, 16})));
  const Value rows = b.shard(x, {{"model", shard(0)}});
  const int first = __LINE__ - 1;
  const Value columns = b.shard(x, {{"model", shard(1)}});
  const int second = __LINE__ - 1;
  b.output("rows", neg(rows));
  b.output("columns", neg(columns));
  const Program program = b.build();
  expect_invalid([&] { slice.compile(program); },
                 AllOf(HasSubstr("disagree: {model: shard(0)} at "), HasSubstr(here(first)),
                       HasSubstr("{model: shard(1)} at "), HasSubstr(here(second)),
                       HasSubstr("remove one of them")));
}

TEST(BadShardings, AValueThatIsToBeCutAndWholeIsNamedWithBothLinesByCompile) {
  const Client client = connect("local:1x4", {.in_process = true, .memory_bytes = 64 << 20});
  const Slice slice = client.allocate({.devices = 4});
  ProgramBuilder b("step", slice.mesh(kMesh.axes));
  const Value rows = b.shard(exp(b.input("x", f32({8, 16}))), {{"model", shard(0)}});
  const int first = __LINE__ - 1;
  b.output("whole", neg(b.shard(rows, {{"model", replicate()}})));
  const int second = __LINE__ - 1;
  const Program program = b.build();
  expect_invalid([&] { slice.compile(program); },
                 AllOf(HasSubstr("disagree: {model: shard(0)} at "), HasSubstr(here(first)),
                       HasSubstr("{model: replicate} at "), HasSubstr(here(second)),
                       HasSubstr("remove one of them")));
}

TEST(BadShardings, AnAxisThatTheMeshLacksIsNamedWithItsLine) {
  ProgramBuilder b("step", kMesh);
  const Value x = b.input("x", f32({8, 16}));
  const auto cut = [&] { b.shard(x, {{"expert", shard(0)}}); };
  const int line = __LINE__ - 1;
  expect_invalid(cut, AllOf(HasSubstr("mesh {data: 2, model: 2} has no axis \"expert\""),
                            HasSubstr(here(line))));
}

TEST(BadShardings, AStateThatDoesNotDivideIsNamedWithItsLineWhereAnActivationIsPadded) {
  ProgramBuilder b("step", kMesh);
  const Value w = b.state("w", filled(f32({7}), 1.0), {{"data", shard(0)}});
  const int line = __LINE__ - 1;
  b.output("y", b.shard(neg(w), {{"model", shard(0)}}));
  expect_invalid([&] { b.build(); },
                 AllOf(HasSubstr("state \"w\""),
                       HasSubstr("{data: shard(0)} does not cut f32[7] into equal parts over mesh "
                                 "{data: 2, model: 2}"),
                       HasSubstr(here(line))));
}

TEST(BadShardings, APlacementThatNoOpCanGiveIsNamedWithItsLine) {
  ProgramBuilder b("step", kMesh);
  const Value x = b.input("x", f32({8, 16}));
  const int partial_at = __LINE__ + 1;
  expect_invalid([&] { b.shard(neg(x), {{"data", partial()}}); },
                 AllOf(HasSubstr("axis \"data\" is partial: only results inside a function are"),
                       HasSubstr(here(partial_at))));
  const auto cut = [&] { b.shard(sum(x, {1}), {{"data", shard(1)}}); };
  const int dim_at = __LINE__ - 1;
  expect_invalid(
      cut, AllOf(HasSubstr("cuts dimension 1: f32[8] has 1 dimensions"), HasSubstr(here(dim_at))));
}

TEST(BadShardings, ACarryThatChangesItsTypeIsNamedWithTheLineOfItsScan) {
  ProgramBuilder b("step", kMesh);
  Tree carry;
  carry.set("sum", b.input("x", f32({8})));
  expect_invalid(
      [&] {
        scan(b.builder(), {.length = 3, .carries = carry}, [](const ScanStep& at) -> Scanned {
          return {.carries = at.carries.map([](const std::string&, const Value& value) {
            return convert(value, DType::kBF16);
          })};
        });
      },
      AllOf(HasSubstr("scan: carry.sum changes its type: it enters an iteration as f32[8]"),
            HasSubstr("leaves it as bf16[8]"), HasSubstr("bad_shardings_test.cc:")));
}

}  // namespace
}  // namespace gangway
