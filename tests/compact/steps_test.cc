// The work of compiling grows with the number of nodes: counted over a model of 10,000, 20,000 and
// 40,000 nodes whose layers are all written out.
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "bench/deep_program.h"
#include "controller/plans/lower.h"
#include "ir/plan/plan_check.h"
#include "ir/plan/plan_text.h"
#include "ir/plan/plan_wire.h"
#include "ir/text/text.h"
#include "ir/transforms/memory/plan_memory.h"
#include "ir/verify/verify.h"
#include "ir/wire/wire.h"
#include "tests/compact/counts.h"

namespace gangway::compact {
namespace {

struct Stage {
  std::string name;
  Counts counts;
};

class Compile {
 public:
  explicit Compile(int64_t layers) {
    std::optional<Program> program;
    std::optional<Plan> plan;
    std::vector<std::byte> bytes;
    std::string text;
    stage("trace", [&] { program = bench::unrolled(layers); });
    nodes = program->functions.back()->nodes.size();
    for (const auto& function : program->functions) nodes = std::max(nodes, function->nodes.size());
    stage("write", [&] { bytes = to_wire(*program); });
    stage("read", [&] { program = program_from_wire(bytes); });
    stage("verify", [&] { require_valid(*program); });
    stage("hash", [&] {
      for (const auto& function : program->functions) content_hash(*function);
    });
    stage("print", [&] { text = print(*program); });
    stage("parse", [&] { parse_program(text); });
    const LowerOptions options{.slices = {{{0, 0, 4}}}, .hosts = {"host-0"}};
    CompileCache cache;
    stage("lower", [&] { plan = lower(*program, options, cache); });
    stage("check the plan", [&] { require_valid(*plan); });
    stage("print the plan", [&] { text = to_text(*plan); });
    stage("write the plan", [&] { bytes = to_wire(*plan); });
    stage("read the plan", [&] { plan = plan_from_wire(bytes); });
    for (const LocalFunction& local : plan->functions) {
      stage(cat("plan the memory of ", local.function->name), [&] { plan_memory(local, {}); });
    }
  }

  size_t nodes = 0;
  std::vector<Stage> stages;

 private:
  void stage(std::string name, const std::function<void()>& work) {
    const Counter counter;
    work();
    stages.push_back({std::move(name), counter.take()});
  }
};

// Sorting and ordered maps make twice the nodes take a little more than twice the steps.
constexpr double kGrowthMax = 2.25;

TEST(Steps, GrowWithTheNodes) {
  const std::vector<Compile> all = {Compile(102), Compile(204), Compile(408)};
  for (size_t i = 0; i < 3; ++i) EXPECT_GE(all[i].nodes, 10'000u << i);
  uint64_t bytes = 0;
  for (size_t s = 0; s < all[0].stages.size(); ++s) {
    const auto expect_linear = [&](uint64_t Counts::* what, const char* unit) {
      const auto at = [&](size_t i) { return static_cast<double>(all[i].stages[s].counts.*what); };
      EXPECT_LE(at(2) - at(1), kGrowthMax * (at(1) - at(0)))
          << all[0].stages[s].name << ": " << at(0) << ", " << at(1) << ", " << at(2) << " " << unit
          << " for 10,000, 20,000 and 40,000 nodes";
    };
    EXPECT_GT(all[0].stages[s].counts.steps, 0u) << all[0].stages[s].name << ": nothing counted";
    bytes += all[0].stages[s].counts.bytes;
    expect_linear(&Counts::steps, "steps");
    expect_linear(&Counts::bytes, "bytes asked for");
  }
  EXPECT_GT(bytes, 0u) << "nothing counted";
}

}  // namespace
}  // namespace gangway::compact
