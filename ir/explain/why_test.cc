#include "ir/explain/why.h"
#include "ir/transforms/propagation/placed_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/build/scan.h"
#include "ir/text/text.h"
#include "ir/transforms/pipeline.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A program that was compiled, on two hosts of two devices.
class Explained {
 public:
  explicit Explained(Program program) : program_(std::move(program)) {
    plan_.hosts = {"a", "b"};
    plan_.slices = {{program_.slices[0].mesh, {{0, 0, 2}, {1, 2, 2}}}};
    for (uint32_t id = 0; id < program_.nodes.size(); ++id) {
      const ProgramNode& node = program_.nodes[id];
      if (node.kind != NodeKind::kCall) continue;
      compile_function(*program_.functions[node.function], {.result_placements = node.placements},
                       {}, &calls_[id]);
    }
  }
  std::string why(const std::string& what, const std::string& placed = "") const {
    return gangway::why({program_, plan_, calls_, {placed}}, what);
  }
  const CompileRecord& record() const { return calls_.begin()->second; }

 private:
  Program program_;
  Plan plan_;
  std::map<uint32_t, CompileRecord> calls_;
};

int line_of_products = 0;

// Megatron's pair of products over "model": the second leaves sums that are not done.
Program pair() {
  ProgramBuilder b("pair", Mesh{{{"data", 2}, {"model", 2}}});
  const Value up = b.state("params.up", zeros(f32({16, 32})), {{"model", shard(1)}});
  const Value down = b.state("params.down", zeros(f32({32, 16})), {{"model", shard(0)}});
  const Value x = b.input("x", f32({8, 16}), {{"data", shard(0)}});
  line_of_products = __LINE__ + 1;
  const Value y = dot(dot(x, up), down);
  b.output("y", exp(y), {{"data", shard(0)}});
  return b.build();
}

TEST(Why, TheShardingOfAValueIsTracedBackToAnnotations) {
  const Explained explained(pair());
  const std::string text = explained.why("%3");
  EXPECT_THAT(text, HasSubstr("%3 of @pair: f32[8, 32] {data: shard(0), model: shard(1)}, "
                              "f32[4, 16] on each of 4 devices\n"));
  EXPECT_THAT(text, HasSubstr("is shard(0) on data\n    because parameter \"x\" is shard(0); "
                              "through dot at why_test.cc:"));
  EXPECT_THAT(text, HasSubstr("is shard(1) on model\n    because parameter \"params.up\" is "
                              "shard(1); through dot at why_test.cc:"));
  EXPECT_THAT(text, HasSubstr("  conversions\n    all who read it take it as it lies\n"));
}

// f32[4, 16] on each device is 256 bytes, all of which a member of two sends once.
TEST(Why, AConversionOfAValueIsShownWithItsCollectiveAndItsReader) {
  const Explained explained(pair());
  EXPECT_THAT(explained.why("@pair.%4"),
              HasSubstr(cat("for %5 = exp (why_test.cc:", line_of_products + 1,
                            "): {data: shard(0), model: partial} -> {data: shard(0)}: all_reduce "
                            "over model, each device sends 256 B, about ")));
}

TEST(Why, AStateIsShownWithItsAnnotationItsDevicesAndItsReaders) {
  const Explained explained(pair());
  const std::string text = explained.why("params.down", "the only host with four");
  EXPECT_THAT(text, StartsWith(cat("state \"params.down\" (why_test.cc:", line_of_products - 3,
                                   "): f32[32, 16] {model: shard(0)}, f32[16, 16] on each of 4 "
                                   "devices\n")));
  EXPECT_THAT(text, HasSubstr("devices\n"
                              "  replicate on data, as nothing else was said\n"
                              "  shard(0) on model, as annotated\n"
                              "  on slice \"main\" {data: 2, model: 2}: a:0-1 b:2-3: the only host "
                              "with four\n"
                              "  read by call \"main\" as parameter \"params.down\"\n"));
}

TEST(Why, ACallListsTheExchangesOfItsDevices) {
  const std::string text = Explained(pair()).why("main");
  EXPECT_THAT(
      text, AllOf(HasSubstr("call \"main\" "), HasSubstr("1 conversion of values between devices"),
                  HasSubstr("all_reduce over model")));
  ProgramBuilder b("alone", Mesh{{{"data", 2}, {"model", 2}}});
  b.output("y", exp(b.input("x", f32({8}))));
  EXPECT_THAT(Explained(b.build()).why("main"), HasSubstr("its devices exchange nothing"));
}

TEST(Why, ALineOrAnOutputShowsItsValues) {
  const Explained explained(pair());
  EXPECT_EQ(explained.why("y").substr(explained.why("y").find('\n') + 1), explained.why("%5"));
  const std::string line = explained.why(cat("why_test.cc:", line_of_products));
  EXPECT_THAT(line, AllOf(HasSubstr("%3 of @pair"), HasSubstr("%4 of @pair")));
  EXPECT_THAT(line, Not(HasSubstr("%5 of @pair")));
}

// One reader needs the value whole, the other cut; the whole value is nearer to the cut than the
// sum.
TEST(Why, AConversionIsShownWithTheShardingsThatItDidNotBeginFrom) {
  ProgramBuilder b("sum", Mesh{{{"data", 4}}});
  const Value x = b.input("x", f32({64, 1024}), {{"data", shard(0)}});
  const Value s = sum(x, {0});
  b.output("whole", s, {{"data", replicate()}});
  b.output("part", tanh(s), {{"data", shard(0)}});
  const std::string text = Explained(b.build()).why("%1");
  EXPECT_THAT(text, HasSubstr("{data: partial} -> {}: all_reduce over data"));
  EXPECT_THAT(text, HasSubstr("{} -> {data: shard(0)}: shard_slice over data, about 500 ns"));
  EXPECT_THAT(text, HasSubstr("not from {data: partial}, where it lies too: about "));
}

TEST(Why, BodiesAreNamedAndTheirValuesSharded) {
  ProgramBuilder b("deep", Mesh{{{"data", 2}, {"model", 2}}});
  const Value w = b.state("w", zeros(f32({4, 16, 16})), {{"model", shard(2)}});
  const Value x = b.input("x", f32({8, 16}), {{"data", shard(0)}});
  const Scanned done =
      scan(b.builder(), {.length = 4, .carries = x, .stacked = w, .name = "layer"},
           [](const ScanStep& at) -> Scanned { return {.carries = dot(at.carries, at.slices)}; });
  b.output("y", done.carries, {{"data", shard(0)}});
  const Explained explained(b.build());
  EXPECT_THAT(explained.why("@layer.%2"),
              AllOf(HasSubstr("%2 of @layer: f32[8, 16] {data: shard(0), model: shard(1)}"),
                    HasSubstr("because parameter \"w\" is shard(2); through scan at ")));
  EXPECT_THAT(explained.why("@layer.%0"), HasSubstr("all_gather over model"));
  const Function function =
      with_shardings(explained.record().function, explained.record().propagation);
  const std::string text = print(function);
  EXPECT_THAT(text, HasSubstr("%2: f32[8, 16] over {data: shard(0), model: shard(1)} = dot"));
  EXPECT_TRUE(same_graph(parse_function(text), function));
}

TEST(Why, UnknownNamesAreRefusedWithTheNamesThatExist) {
  const Explained explained(pair());
  const auto error = [&](const std::string& what) {
    return error_text_of([&] { explained.why(what); });
  };
  EXPECT_THAT(error("head"), AllOf(HasSubstr("why: program \"pair\" has no one node \"head\""),
                                   HasSubstr("(main, y)")));
  EXPECT_THAT(error("%99"), HasSubstr("why: value %99: there is none: expected a value as --level "
                                      "sharding numbers it: @pair has 6"));
  EXPECT_THAT(error("@main.%1"), HasSubstr("why: value @main.%1: there is none"));
  EXPECT_THAT(error("why_test.cc:1"), HasSubstr("has no one node"));
  EXPECT_THAT(error("%"), HasSubstr("has no one node"));
  EXPECT_THAT(error(""), HasSubstr("has no one node"));
  EXPECT_THAT(error("%99999999999999999999"), HasSubstr("has no one node"));
}

}  // namespace
}  // namespace gangway
