// A vocabulary cut over devices: embedding, cross-entropy and their gradients equal the whole
// function's, and neither the table nor the logits are ever gathered.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/build/autodiff.h"
#include "ir/build/ops.h"
#include "ir/text/text.h"
#include "runtime/base/error.h"
#include "tests/interpret/interpret.h"
#include "tests/numerics/lowered_functions.h"
#include "tests/numerics/sharded_literals.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway::numerics {
namespace {

int64_t size_of_axes(const Mesh& mesh, const std::vector<std::string>& names) {
  int64_t product = 1;
  for (const MeshAxis& axis : mesh.axes) {
    if (std::ranges::count(names, axis.name) > 0) product *= axis.size;
  }
  return product;
}

TEST(VocabularyParallel, EqualsTheWholeFunctionOverAnyMesh) {
  const uint64_t seed = gangway::tests::test_seed();
  const std::vector<Mesh> meshes = {{{{"a", 2}}},           {{{"a", 3}}},
                                    {{{"a", 4}}},           {{{"a", 2}, {"b", 2}}},
                                    {{{"a", 2}, {"b", 3}}}, {{{"a", 2}, {"b", 2}, {"c", 2}}}};
  int lowered = 0;
  for (uint64_t n = 0; n < 120; ++n) {
    std::mt19937_64 random(seed + n);
    const Mesh& mesh = meshes[n % meshes.size()];
    VocabularySizes sizes;
    for (const MeshAxis& axis : mesh.axes) {
      const uint64_t use = random() % 4;  // An axis cuts words twice as often as rows.
      if (use < 2) sizes.of_words.push_back(axis.name);
      if (use == 2) sizes.of_batch.push_back(axis.name);
    }
    std::ranges::shuffle(sizes.of_words, random);
    const int64_t parts = size_of_axes(mesh, sizes.of_words);
    sizes.words = parts * (1 + static_cast<int64_t>(random() % 3));
    sizes.batch = size_of_axes(mesh, sizes.of_batch) * 2;
    CallContext context;
    const Function function = vocabulary_model(mesh, sizes, context);
    SCOPED_TRACE(cat("GW_TEST_SEED=", seed + n, "\n", print(function, {.locations = false})));
    std::vector<Literal> arguments = gangway::tests::random_arguments(random, function);
    for (size_t p : {2, 3}) {
      for (double& word : arguments[p].values)
        word = static_cast<double>(random() % static_cast<uint64_t>(sizes.words));
    }
    const Compiled compiled = compile_function(function, context);
    const std::vector<std::string> names = op_names(*compiled.local.function);
    EXPECT_EQ(std::ranges::count(names, "all_gather"), 0);
    EXPECT_EQ(std::ranges::count(names, "all_to_all"), 0);
    EXPECT_EQ(std::ranges::count(names, "axis_index") > 0, parts > 1);
    EXPECT_EQ(std::ranges::count(names, "cross_entropy_and_grad"), parts > 1 ? 0 : 1);
    lowered += parts > 1 ? 1 : 0;
    ASSERT_LT(relative_difference(interpret_compiled(compiled, arguments),
                                  interpret(function, arguments)),
              1e-12)
        << print(*compiled.local.function, {.locations = false});
  }
  EXPECT_GT(lowered, 60);
}

// The largest number of elements that any collective takes.
int64_t largest_meeting(const Function& local) {
  int64_t largest = 0;
  for (const Node& node : local.nodes) {
    if (!row(node.op).meets) continue;
    for (ValueId input : node.inputs) largest = std::max(largest, local.types[input].elements());
  }
  return largest;
}

TEST(VocabularyParallel, SendsNothingOfTheSizeOfLogitsNorOfTheTable) {
  for (int64_t devices : {2, 8}) {
    const VocabularySizes sizes{
        .words = 4096, .batch = 4, .seq = 8, .dim = 16, .of_words = {"model"}};
    CallContext context;
    const Function function = vocabulary_model({{{"model", devices}}}, sizes, context);
    const Compiled compiled = compile_function(function, context);
    // Embedded rows and their gradient: [batch, seq, dim].
    EXPECT_EQ(largest_meeting(*compiled.local.function), 4 * 8 * 16);
  }
}

TEST(VocabularyParallel, TheGraphIsOfOneSizeForAnyNumberOfDevices) {
  std::vector<std::vector<std::string>> of_sizes;
  for (int64_t devices : {2, 8}) {
    const VocabularySizes sizes{.words = 16, .of_words = {"model"}};
    CallContext context;
    const Function function = vocabulary_model({{{"model", devices}}}, sizes, context);
    of_sizes.push_back(op_names(*compile_function(function, context).local.function));
  }
  EXPECT_EQ(of_sizes[0], of_sizes[1]);
}

TEST(VocabularyParallel, AnInvalidTokenGivesZerosAndAnInvalidLabelGivesNan) {
  const VocabularySizes sizes{.words = 4, .batch = 2, .seq = 3, .dim = 2, .of_words = {"model"}};
  CallContext context;
  const Function function = vocabulary_model({{{"model", 2}}}, sizes, context);
  std::mt19937_64 random(gangway::tests::test_seed());
  std::vector<Literal> arguments = gangway::tests::random_arguments(random, function);
  arguments[2].values = {0, 4, -1, 2, 1 << 30, 3};
  arguments[3].values = {0, 4, -1, 2, 1 << 30, 3};
  const std::vector<Literal> got =
      interpret_compiled(compile_function(function, context), arguments);
  const std::vector<Literal> whole = interpret(function, arguments);
  for (size_t i = 0; i < 6; ++i) {
    const bool is_word = arguments[3].values[i] >= 0 && arguments[3].values[i] < 4;
    ASSERT_EQ(std::isnan(got[0].values[i]), !is_word);
    if (is_word) {
      EXPECT_NEAR(got[0].values[i], whole[0].values[i], 1e-12);
    }
  }
  for (double value : got[2].values) EXPECT_TRUE(std::isnan(value)) << "it must not train";
}

// Near 1e6 steps of f32 are 1/16. The logits are whole steps, so their common offset is exact.
TEST(VocabularyParallel, AnOffsetCommonToAllLogitsCostsNoDigitsOfLossOrGradient) {
  const std::vector<double> plain = {0, 1, 2, 1, 3, -1, 0.5, 0}, labels = {0, 3};
  std::vector<double> losses, dlogits;
  for (size_t row = 0; row < 2; ++row) {
    const double* x = plain.data() + row * 4;
    double sum = 0;
    for (size_t c = 0; c < 4; ++c) sum += std::exp(x[c]);
    const auto label = static_cast<size_t>(labels[row]);
    losses.push_back(std::log(sum) - x[label]);
    for (size_t c = 0; c < 4; ++c) dlogits.push_back(std::exp(x[c]) / sum - (c == label ? 1 : 0));
  }
  for (int64_t devices : {1, 2, 4}) {
    Builder b("loss", Mesh{{{"model", devices}}});
    const Value logits = b.parameter("logits", f32({2, 4}), {{"model", shard(1)}});
    const Value loss = cross_entropy(logits, b.parameter("labels", i32({2})));
    b.result("loss", loss);
    b.result("dlogits", gradients(sum(loss), {logits})[0]);
    const Function function = b.build();
    const Compiled compiled = compile_function(function, {});
    for (const double offset : {0.0, 1e4, -1e4, 1e6}) {
      SCOPED_TRACE(cat(devices, " devices, at ", offset));
      std::vector<Literal> arguments = {{f32({2, 4}), plain}, {i32({2}), labels}};
      for (double& logit : arguments[0].values) logit += offset;
      const std::vector<Literal> got = interpret_compiled(compiled, arguments);
      for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(got[0].values[i], losses[i], 1e-6);
      for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(got[1].values[i], dlogits[i], 1e-6);
    }
  }
}

}  // namespace
}  // namespace gangway::numerics
