#include "ir/transforms/sections/cut_sections.h"

#include <gtest/gtest.h>

#include <numeric>

#include "runtime/base/rng.h"
#include "tests/support/scan_attrs.h"
#include "tests/support/seed.h"

namespace gangway::cut_sections_test {
namespace {

using Section = LocalFunction::Section;

// Microseconds of one node each, on a mesh of one device; below 0: a collective of 8 bytes.
LocalFunction timed_nodes(const std::vector<int64_t>& us, NodeId commit_begin = kNone,
                          Op collective = Op::all_reduce) {
  auto function = std::make_shared<Function>();
  function->local = true;
  function->mesh = {{{"data", 1}}};
  function->types = {f64({1})};
  for (const int64_t each : us) {
    Node node{.op = each < 0 ? collective : Op::timed, .inputs = {function->value_count() - 1}};
    if (each < 0) node.attrs = {{"axes", std::string("data")}, {"to", std::string("data")}};
    if (each >= 0) node.attrs.set("microseconds", each);
    node.first_result = function->value_count();
    function->types.push_back(f64({1}));
    function->nodes.push_back(std::move(node));
  }
  return {.function = function,
          .commit_begin = std::min(commit_begin, static_cast<NodeId>(us.size()))};
}

constexpr DeviceRates kRates{.flops_per_s = 1e9,
                             .memory_bytes_per_s = 1e9,
                             .link_bytes_per_s = 1e9,
                             .launch_ns = 0,
                             .collective_latency_ns = 10'000};

std::vector<Section> cut(const LocalFunction& local) {
  return cut_sections(*local.function, local.commit_begin, kRates);
}

TEST(CutSections, AFunctionShorterThanTheLimitIsOneSection) {
  EXPECT_EQ(cut(timed_nodes({100, 50, 100})), (std::vector<Section>{{0, 250'000}}));
  EXPECT_EQ(cut(timed_nodes({})), std::vector<Section>());
}

TEST(CutSections, ASectionEndsBeforeTheNodeThatWouldGoBeyondTheLimit) {
  EXPECT_EQ(cut(timed_nodes({100, 100, 100, 100, 100})),
            (std::vector<Section>{{0, 200'000}, {2, 200'000}, {4, 100'000}}));
}

TEST(CutSections, ANodeThatIsLongerThanTheLimitIsASectionOfItsOwn) {
  EXPECT_EQ(cut(timed_nodes({10, 3000, 10, 10})),
            (std::vector<Section>{{0, 10'000}, {1, 3'000'000}, {2, 20'000}}));
}

TEST(CutSections, ACutLiesBehindACollectiveWhereOneIsLateEnough) {
  EXPECT_EQ(cut(timed_nodes({60, -1, 60, 60, 60, 60})),
            (std::vector<Section>{{0, 70'000}, {2, 240'000}}));
  EXPECT_EQ(cut(timed_nodes({60, -1, 60, -1, 60, 60, 60})),
            (std::vector<Section>{{0, 140'000}, {4, 180'000}}))
      << "the last that fits";
  EXPECT_EQ(cut(timed_nodes({10, -1, 200, 60, 60})),
            (std::vector<Section>{{0, 220'000}, {3, 120'000}}))
      << "too early: a quarter at least";
  EXPECT_EQ(cut(timed_nodes({60, -1, 100, 200})),
            (std::vector<Section>{{0, 70'000}, {2, 100'000}, {3, 200'000}}))
      << "what is left behind the cut is cut again";
}

TEST(CutSections, ACutLiesBehindEveryKindOfCollective) {
  for (const Op op : {Op::all_reduce, Op::permute, Op::collective_broadcast}) {
    const std::vector<Section> sections = cut(timed_nodes({60, -1, 60, 60, 60, 60}, kNone, op));
    ASSERT_EQ(sections.size(), 2u) << to_string(op);
    EXPECT_EQ(sections[1].begin, 2u) << to_string(op);
  }
}

TEST(CutSections, ASectionBeginsAtTheCommitPoint) {
  EXPECT_EQ(cut(timed_nodes({10, 10, 10}, 2)), (std::vector<Section>{{0, 20'000}, {2, 10'000}}));
  EXPECT_EQ(cut(timed_nodes({10, 10, 10}, 0)), (std::vector<Section>{{0, 30'000}}));
}

TEST(CutSections, AnyFunctionIsCutIntoSectionsThatFitAndAddUp) {
  Rng rng(tests::test_seed());
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> us(1 + rng.below(60));
    for (int64_t& each : us) each = rng.chance(0.2) ? -1 : static_cast<int64_t>(rng.below(300));
    const LocalFunction local = timed_nodes(us, static_cast<NodeId>(rng.below(us.size() + 1)));
    const std::vector<Section> sections = cut(local);
    bool at_commit = local.commit_begin == us.size();
    ASSERT_EQ(sections[0].begin, 0u);
    for (size_t s = 0; s < sections.size(); ++s) {
      const size_t begin = sections[s].begin;
      const size_t end = s + 1 == sections.size() ? us.size() : sections[s + 1].begin;
      ASSERT_LT(begin, end);
      int64_t sum = 0;
      for (size_t id = begin; id < end; ++id) sum += us[id] < 0 ? 10'000 : us[id] * 1000;
      EXPECT_EQ(sections[s].modelled_ns, sum);
      EXPECT_TRUE(sum <= kSectionLimitNs || end == begin + 1) << sum;
      at_commit |= begin == local.commit_begin;
    }
    EXPECT_TRUE(at_commit) << local.commit_begin;
  }
}

void append(Function& to, const Node& like, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Node node = like;
    node.inputs = {to.value_count() - 1};
    node.first_result = to.value_count();
    to.types.push_back(f64({1}));
    to.nodes.push_back(std::move(node));
  }
}

TEST(CutSections, ScansAreCutAsIfTheyWereUnrolled) {
  Rng rng(tests::test_seed());
  for (int round = 0; round < 100; ++round) {
    Function nested = *timed_nodes({}).function, flat = nested;
    NodeId commit = 0, flat_commit = 0;
    for (uint64_t n = 1 + rng.below(4); n-- > 0;) {
      std::vector<int64_t> us(1 + rng.below(6));
      for (int64_t& each : us) each = rng.chance(0.3) ? -1 : static_cast<int64_t>(rng.below(150));
      const auto body = timed_nodes(us).function;
      const auto length = static_cast<int64_t>(1 + rng.below(9));
      append(nested, {.op = Op::scan, .attrs = tests::scan_attrs({.length = length}), .body = body},
             1);
      for (int64_t i = 0; i < length; ++i) {
        for (const Node& node : body->nodes) append(flat, node, 1);
      }
      if (!rng.chance(0.5)) continue;
      commit = static_cast<NodeId>(nested.nodes.size());
      flat_commit = static_cast<NodeId>(flat.nodes.size());
    }
    const auto sections = [](const Function& function, NodeId begin) {
      return cut({.function = std::make_shared<const Function>(function), .commit_begin = begin});
    };
    EXPECT_EQ(sections(nested, commit), sections(flat, flat_commit));
  }
}

TEST(CutSections, AFunctionOfManyIterationsHasABoundedNumberOfSections) {
  Function f = *timed_nodes({}).function;
  append(f,
         {.op = Op::scan,
          .attrs = tests::scan_attrs({.length = int64_t{1} << 24}),
          .body = timed_nodes({300}).function},
         1);
  const auto made = std::make_shared<const Function>(std::move(f));
  const std::vector<Section> sections = cut({.function = made, .commit_begin = 1});
  EXPECT_EQ(sections.size(), static_cast<size_t>(kSectionsMax));
  EXPECT_EQ(sections[1].modelled_ns, 300'000 * 256);
}

}  // namespace
}  // namespace gangway::cut_sections_test
