// Gradients of random graphs: what the loss does along a direction, and the same bits however much
// of the graph is rematerialised.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/text/text.h"
#include "runtime/base/error.h"
#include "tests/interpret/interpret.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

const Mesh kOneDevice{{{"data", 1}}};
constexpr uint64_t kGraphs = 200;

bool is_gradient(const std::string& name) { return name.starts_with("gradient."); }

double loss_at(const Function& function, const std::vector<Literal>& arguments,
               const std::vector<Literal>& direction, double step) {
  std::vector<Literal> moved = arguments;
  for (size_t p = 0; p < moved.size(); ++p) {
    for (size_t i = 0; i < direction[p].values.size() && is_float(moved[p].type.dtype); ++i)
      moved[p].values[i] += step * direction[p].values[i];
  }
  const auto results = interpret(function, moved);
  for (size_t r = 0; r < results.size(); ++r) {
    if (function.result_names[r] == "loss") return results[r].values[0];
  }
  throw Error(ErrorKind::kBug, "no loss");
}

TEST(AutodiffProperty, TheLossMovesAlongADirectionAsItsGradientsSay) {
  const uint64_t seed = tests::test_seed();
  for (uint64_t graph = 0; graph < kGraphs; ++graph) {
    std::mt19937_64 random(seed + graph);
    const Function function = tests::random_batch_function(random, kOneDevice, DType::kF64);
    const std::vector<Literal> arguments = tests::random_arguments(random, function);
    const std::vector<Literal> direction = tests::random_arguments(random, function);
    const std::vector<Literal> results = interpret(function, arguments);
    double slope = 0;
    size_t r = 0;
    for (size_t p = 0; p < arguments.size(); ++p) {
      if (!is_float(arguments[p].type.dtype)) continue;
      while (!is_gradient(function.result_names[r])) ++r;
      ASSERT_EQ(results[r].type, arguments[p].type);
      for (size_t i = 0; i < results[r].values.size(); ++i)
        slope += results[r].values[i] * direction[p].values[i];
      ++r;
    }
    // A kink within one step lies without another.
    double error = INFINITY;
    for (double h : {1e-4, 1e-5, 1e-6}) {
      const double rise =
          loss_at(function, arguments, direction, h) - loss_at(function, arguments, direction, -h);
      error = std::min(error, std::abs(rise / (2 * h) - slope));
    }
    EXPECT_LT(error, 1e-5 * std::max(1.0, std::abs(slope)))
        << "GW_TEST_SEED=" << seed + graph << " slope " << slope << "\n"
        << print(function, {.locations = false});
  }
}

TEST(AutodiffProperty, RematerialisedGraphsGiveTheSameBits) {
  const uint64_t seed = tests::test_seed();
  int recomputed = 0;
  for (uint64_t graph = 0; graph < kGraphs; ++graph) {
    std::mt19937_64 random(seed + graph), again(seed + graph);
    const Function kept = tests::random_batch_function(random, kOneDevice, DType::kF32);
    const Function remat = tests::random_batch_function(again, kOneDevice, DType::kF32, true);
    const std::vector<Literal> arguments = tests::random_arguments(random, kept);
    EXPECT_EQ(interpret(remat, arguments), interpret(kept, arguments))
        << "GW_TEST_SEED=" << seed + graph << "\n"
        << print(remat, {.locations = false});
    for (const NodeInfo& info : remat.infos) recomputed += info.reason == Reason::kRematerialize;
  }
  EXPECT_GT(recomputed, 100);
}

}  // namespace
}  // namespace gangway
