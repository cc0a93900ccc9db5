#include "ir/plan/step_map.h"

#include <gtest/gtest.h>

#include <string>

#include "ir/graph/bodies.h"
#include "runtime/base/rng.h"
#include "tests/support/scan_attrs.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

// Nodes of one operand and result each, f32[1]; a scan carries it.
class Chain {
 public:
  explicit Chain(std::string name) : function_(std::make_shared<Function>()) {
    function_->name = std::move(name);
    function_->local = true;
    function_->mesh = {{{"data", 1}}};
    function_->types = {f32({1})};
    function_->parameters = {{"x", {}}};
  }

  Chain& add(Op op, Attrs attrs = {}, std::shared_ptr<const Function> body = nullptr) {
    Node node{.op = op,
              .inputs = {function_->value_count() - 1},
              .attrs = std::move(attrs),
              .first_result = function_->value_count(),
              .body = std::move(body)};
    function_->types.push_back(f32({1}));
    function_->nodes.push_back(std::move(node));
    function_->infos.push_back({.loc = loc_});
    return *this;
  }
  Chain& neg() { return add(Op::neg); }
  Chain& meet() { return add(Op::all_reduce, {{"axes", std::string("data")}}); }
  Chain& scan(int64_t length, std::shared_ptr<const Function> body, bool reverse = false) {
    return add(Op::scan, tests::scan_attrs({.length = length, .reverse = reverse}),
               std::move(body));
  }
  // The carry is made ahead.
  Chain& scan_ahead(int64_t length, std::shared_ptr<const Function> body) {
    return add(Op::scan, tests::scan_attrs({.length = length, .ahead = 1}), std::move(body));
  }
  Chain& call(std::shared_ptr<const Function> body) { return add(Op::call, {}, std::move(body)); }
  // Sets the location of the nodes that follow; `scope` lies in the scope before.
  Chain& at(int line, const std::string& scope = "") {
    function_->locs.push_back({"model.cc", line, scope, scope_});
    loc_ = static_cast<uint32_t>(function_->locs.size() - 1);
    if (!scope.empty()) scope_ = loc_;
    return *this;
  }
  std::shared_ptr<const Function> made() {
    function_->results = {function_->value_count() - 1};
    function_->result_names = {"y"};
    return function_;
  }

 private:
  std::shared_ptr<Function> function_;
  uint32_t loc_ = kNone, scope_ = kNone;
};

// The steps of a device, listed by plain recursion.
struct Walked {
  const Function* function;
  NodeId node;
};
void walk(const Function& function, std::vector<Walked>& steps) {
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const Node& node = function.nodes[id];
    const int64_t times = node.body == nullptr ? 0 : ScanLayout(node).length;
    const size_t before = steps.size();
    for (int64_t i = 0; i < times; ++i) walk(*node.body, steps);
    if (steps.size() == before) steps.push_back({&function, id});
  }
}
bool meets(const Walked& step) { return row(step.function->nodes[step.node].op).meets; }

void expect_counted_out(const Function& function) {
  const StepMap map(function);
  std::vector<Walked> steps;
  walk(function, steps);
  ASSERT_EQ(map.count(), steps.size());
  const StepSums sums(map, [](const Function& of, NodeId id) {
    return static_cast<int64_t>(of.nodes.size() * 100 + id);
  });
  const StepMarks collectives(map);
  int64_t sum = 0;
  uint32_t next = map.count(), last = kNone;
  for (uint32_t s = 0; s < map.count(); ++s) {
    const StepMap::Leaf leaf = map.leaf(s);
    EXPECT_EQ(&map.function(leaf.part), steps[s].function) << s;
    EXPECT_EQ(leaf.node, steps[s].node) << s;
    EXPECT_EQ(map.path(s).back().node, steps[s].node) << s;
    EXPECT_EQ(sums.before(s), sum) << s;
    sum += static_cast<int64_t>(steps[s].function->nodes.size() * 100 + steps[s].node);
    EXPECT_EQ(collectives.previous(s), last) << s;
    if (meets(steps[s])) last = s;
  }
  EXPECT_EQ(collectives.previous(map.count()), last);
  EXPECT_EQ(sums.before(map.count()), sum);
  EXPECT_EQ(sums.total(), sum);
  EXPECT_EQ(collectives.next(map.count()), map.count());
  for (uint32_t s = map.count(); s-- > 0;) {
    if (meets(steps[s])) next = s;
    EXPECT_EQ(collectives.next(s), next) << s;
  }
}

TEST(StepMap, AScanIsTheStepsOfItsBodyForEachIterationAndACallThoseOfOne) {
  const auto inner = Chain("inner").neg().meet().made();
  const auto outer = Chain("outer").neg().scan(3, inner).call(inner).made();
  const auto f = Chain("f").neg().scan(2, outer).neg().made();
  const StepMap map(*f);
  EXPECT_EQ(map.count(), 1u + 2 * (1 + 3 * 2 + 2) + 1);
  EXPECT_EQ(map.first_step(0), 0u);
  EXPECT_EQ(map.first_step(1), 1u);
  EXPECT_EQ(map.first_step(2), 19u);
  EXPECT_EQ(map.first_step(3), 20u);
  const std::vector<StepMap::Level> path = map.path(1 + 9 + 1 + 2 + 2 + 1);
  ASSERT_EQ(path.size(), 3u);
  EXPECT_EQ(path[0].node, 1u);
  EXPECT_EQ(path[0].iteration, 1u);
  EXPECT_EQ(path[1].node, 1u);
  EXPECT_EQ(path[1].iteration, 2u);
  EXPECT_EQ(path[2].function, inner.get());
  EXPECT_EQ(path[2].node, 1u);
  expect_counted_out(*f);
}

TEST(StepMap, ACallOrScanOfAnEmptyBodyIsOneStep) {
  const auto empty = Chain("empty").made();
  const auto body = Chain("body").neg().neg().made();
  const auto f = Chain("f").scan(0, body).call(empty).scan(5, empty).made();
  EXPECT_EQ(StepMap(*f).count(), 3u);
  expect_counted_out(*f);
}

TEST(StepMap, NodesOfAFunctionWithoutBodiesAreItsSteps) {
  const auto f = Chain("f").neg().meet().neg().meet().neg().made();
  expect_counted_out(*f);
  EXPECT_EQ(commit_step({.function = f, .commit_begin = 3}), 3u);
  const auto scanned = Chain("g").neg().scan(7, f).neg().made();
  EXPECT_EQ(commit_step({.function = scanned, .commit_begin = 2}), 36u);
}

TEST(StepMap, RandomNestsOfBodiesAreCountedAsADeviceRunsThem) {
  Rng rng(tests::test_seed());
  for (int round = 0; round < 60; ++round) {
    std::vector<std::shared_ptr<const Function>> made;
    for (int f = 0; f < 4; ++f) {
      Chain chain("f");
      for (uint64_t n = rng.below(5); n-- > 0;) {
        const uint64_t kind = rng.below(made.empty() ? 2 : 5);
        if (kind == 0) chain.meet();
        if (kind == 1) chain.neg();
        if (kind == 2) chain.call(made[rng.below(made.size())]);
        if (kind > 2) chain.scan(static_cast<int64_t>(rng.below(4)), made[rng.below(made.size())]);
      }
      made.push_back(chain.made());
      expect_counted_out(*made.back());
    }
  }
}

// Every second node of each part is marked, those that run bodies too.
TEST(StepMap, MarkedStepsAreFoundFromBothSides) {
  const auto inner = Chain("inner").neg().neg().neg().made();
  const auto outer = Chain("outer").neg().scan(3, inner).scan(2, inner).neg().made();
  const auto f = Chain("f").scan(2, outer).neg().scan(4, inner).neg().made();
  const StepMap map(*f);
  const StepMarks marks(map, [](uint32_t, NodeId node) { return node % 2 == 0; });
  std::vector<bool> marked(map.count(), false);
  std::vector<StepMap::Level> before;
  for (uint32_t s = 0; s < map.count(); ++s) {
    const std::vector<StepMap::Level> now = map.path(s);
    size_t same = 0;
    while (s > 0 && now[same] == before[same]) ++same;
    // The node of the first level that differs may have begun before.
    const bool goes_on = s > 0 && now[same].node == before[same].node;
    for (size_t l = goes_on ? same + 1 : same; l < now.size(); ++l)
      marked[s] = marked[s] || now[l].node % 2 == 0;
    before = now;
  }
  uint32_t last = kNone;
  for (uint32_t s = 0; s < map.count(); ++s) {
    EXPECT_EQ(marks.previous(s), last) << s;
    if (marked[s]) last = s;
  }
  uint32_t next = map.count();
  for (uint32_t s = map.count(); s-- > 0;) {
    if (marked[s]) next = s;
    EXPECT_EQ(marks.next(s), next) << s;
  }
}

TEST(StepMap, AStepInABodyIsNamedWithTheRowsOfItsIterations) {
  const auto layer = Chain("layers").at(10, "train").at(14, "attn").neg().made();
  const auto part = Chain("half").at(10, "train").at(20).scan(4, layer).made();
  const auto f =
      Chain("f").at(10, "train").at(30).scan(2, part).scan(4, layer, true).call(layer).made();
  const StepMap map(*f);
  EXPECT_EQ(map.where(0), "model.cc:14 in attn in layers.0 in half.0 in train");
  EXPECT_EQ(map.where(6), "model.cc:14 in attn in layers.2 in half.1 in train");
  EXPECT_EQ(map.where(8), "model.cc:14 in attn in layers.3 in train") << "the last row first";
  EXPECT_EQ(map.where(12), "model.cc:14 in attn in layers in train");
}

TEST(StepMap, StepsThatWorkForAnIterationThatDoesNotComeArePassedOver) {
  const auto layer = Chain("layers").neg().meet().made();
  const auto f = Chain("f").scan_ahead(2, layer).scan_ahead(3, layer).made();
  const StepMap map(*f);
  std::vector<bool> passed;
  for (uint32_t s = 0; s < map.count(); ++s) passed.push_back(map.is_passed_over(s));
  EXPECT_EQ(passed,
            (std::vector<bool>{false, false, true, true, false, false, false, false, true, true}));
}

TEST(StepMap, StepsThatArePassedOverCostNothing) {
  const auto inner = Chain("inner").neg().meet().made();
  const auto outer = Chain("outer").neg().scan_ahead(2, inner).made();
  const auto layer = Chain("layers").call(Chain("part").neg().made()).neg().made();
  const auto f = Chain("f").scan(3, outer).scan_ahead(3, layer).neg().made();
  const StepMap map(*f);
  const StepSums sums(map, [](const Function&, NodeId) { return 1; });
  int64_t sum = 0;
  for (uint32_t s = 0; s < map.count(); ++s) {
    EXPECT_EQ(sums.before(s), sum) << s;
    sum += map.is_passed_over(s) ? 0 : 1;
  }
  EXPECT_EQ(sums.total(), sum);
  EXPECT_EQ(sums.before(map.count()), sum);
  EXPECT_LT(sum, map.count());
}

TEST(StepMap, NodesThatRunOneBodyDoNotDifferInWhatTheyWorkAhead) {
  const auto layer = Chain("layers").neg().meet().made();
  const auto refusal = [](const Chain& chain) -> std::string {
    try {
      const StepMap map(*Chain(chain).made());
      return "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      EXPECT_EQ(error.where().at, "model.cc:8");
      return error.message();
    }
  };
  EXPECT_EQ(
      refusal(Chain("f").at(7).scan_ahead(2, layer).at(8).call(layer)),
      "function \"f\": call runs body \"layers\" with 0 of 0 carries made ahead, another node "
      "with 1 of 1");
  EXPECT_EQ(
      refusal(Chain("f").at(7).scan(2, layer).at(8).scan_ahead(2, layer)),
      "function \"f\": scan runs body \"layers\" with 1 of 1 carries made ahead, another node "
      "with 0 of 0");
  EXPECT_EQ(refusal(Chain("f").at(7).scan_ahead(2, layer).at(8).scan_ahead(3, layer)), "accepted");
}

TEST(StepMap, MoreStepsThanTheBoundAreRefusedWithTheLineOfTheScan) {
  const auto body = Chain("body").neg().made();
  const auto many = Chain("many").scan(1 << 20, body).made();
  const auto f = Chain("f").at(7).scan(1 << 11, many).made();
  try {
    const StepMap map(*f);
    FAIL() << map.count();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_EQ(error.where().at, "model.cc:7");
  }
}

}  // namespace
}  // namespace gangway
