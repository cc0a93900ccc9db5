// Each kind of step has an example: tests/golden/ir/conversions.gw holds, for the conversions
// below, the local function that converts its parameter.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "runtime/base/error.h"
#include "tests/conversions/converting_function.h"
#include "tests/support/places.h"

namespace gangway {
namespace {

struct Case {
  std::string name;
  Mesh mesh;
  Type type;
  Sharding from, to;
};

std::vector<Case> cases() {
  const Mesh four{{{"data", 4}}}, grid{{{"data", 2}, {"model", 3}}};
  const Placement r = replicate();
  return {
      {"slice", four, f32({8, 16}), {r}, {shard(0)}},
      {"slice in uneven parts", grid, f32({7, 16}), {r, r}, {shard(0), shard(0)}},
      {"gather", four, f32({8, 16}), {shard(0)}, {r}},
      {"gather over two axes", grid, f32({12, 16}), {shard(0, 1), shard(0, 0)}, {r, r}},
      {"gather of uneven parts", grid, f32({7, 16}), {shard(0), shard(0)}, {r, r}},
      {"all-to-all", four, f32({8, 16}), {shard(0)}, {shard(1)}},
      {"all-to-all in uneven parts", four, f32({9, 15}), {shard(1)}, {shard(0)}},
      {"permute", grid, f32({12, 16}), {shard(0, 0), shard(0, 1)}, {shard(0, 1), shard(0, 0)}},
      {"reduce-scatter", four, f32({8, 16}), {partial()}, {shard(1)}},
      {"reduce-scatter of maxima", four, f32({9}), {partial(Reduction::kMax)}, {shard(0)}},
      {"all-reduce", grid, f32({8, 16}), {partial(), partial()}, {r, r}},
      {"all-reduce of a part", grid, f32({8, 16}), {partial(), r}, {r, shard(1)}},
      {"keep first", grid, f32({8, 16}), {shard(0), r}, {shard(0), partial()}},
  };
}

std::string converted(const Case& c) {
  const Function local = tests::converting_function(
      c.name, c.type, c.mesh, c.from, tests::plan_conversion(c.type, c.mesh, c.from, c.to, {}));
  require_valid(local);
  return cat("// ", to_string(c.type), " ", to_string(c.mesh, c.from), " -> ",
             to_string(c.mesh, c.to), "\n", print(local, {.locations = false}));
}

TEST(Conversions, GoldenStepsOfEachKind) {
  std::ifstream in(cat(tests::source_folder(), "/tests/golden/ir/conversions.gw"));
  const std::string golden{std::istreambuf_iterator<char>(in), {}};
  std::string text = "// Each kind of step of a conversion, by the local function that does it.\n";
  for (const Case& c : cases()) text += cat("-----\n", converted(c));
  EXPECT_EQ(golden, text);
}

}  // namespace
}  // namespace gangway
