#include "ir/plan/positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/plan/plan_check.h"
#include "runtime/base/error.h"
#include "tests/support/test_plan.h"

namespace gangway {
namespace {

using Range = Positions::Range;
using testing::HasSubstr;

std::shared_ptr<const Function> of_nodes(size_t count) {
  auto function = std::make_shared<Function>();
  function->nodes.resize(count);
  return function;
}

// Two slices of one device each. A call in slice 0 of four sections, two of them behind the commit
// point; what it gives goes to slice 1, where a call that is not cut reads it; gate; commit.
class PositionsTest : public testing::Test {
 protected:
  PositionsTest() : t_("positions", 1, 2) {
    Plan& plan = t_.plan();
    plan.slices = {{TestPlan::mesh_of(1), {{0, 0, 1}}}, {TestPlan::mesh_of(1), {{0, 1, 1}}}};
    plan.functions = {{.function = of_nodes(40),
                       .commit_begin = 20,
                       .sections = {{0, 7}, {10, 5}, {20, 100}, {30, 1000}}},
                      {.function = of_nodes(3), .commit_begin = 3}};
    const uint32_t here = t_.value("", PlanStorage::kTemporary, f32());
    const uint32_t there = t_.value("", PlanStorage::kTemporary, f32(), {}, 1);
    source_ = t_.node({.kind = PlanNodeKind::kSource});
    cut_ = t_.call("cut", 0, {}, {here});
    receive_ = t_.transfer(here, there);
    send_ = receive_ - 1;
    whole_ = t_.call("whole", 1, {there}, {}, 1);
    gate_ = t_.gate();
    commit_ = t_.commit(cut_);
    whole_commit_ = t_.commit(whole_);
  }

  TestPlan t_;
  uint32_t source_, cut_, send_, receive_, whole_, gate_, commit_, whole_commit_;
};

TEST_F(PositionsTest, ACallHasAPositionForEachSectionBeforeItsCommitPointAndItsCommitTheOthers) {
  const Positions positions(t_.plan());
  EXPECT_EQ(positions.of(source_, 0), (Range{0, 1}));
  EXPECT_EQ(positions.of(cut_, 0), (Range{1, 2}));
  EXPECT_EQ(positions.of(commit_, 0), (Range{5, 2}));
  EXPECT_EQ(positions.count(0), 7u);
  EXPECT_EQ(positions.sections(cut_, 0), (SectionRange{0, 2}));
  EXPECT_EQ(positions.sections(commit_, 0), (SectionRange{2, 2}));
}

TEST_F(PositionsTest, ACallThatIsNotCutHasOnePosition) {
  const Positions positions(t_.plan());
  EXPECT_EQ(positions.of(whole_, 1), (Range{1, 1}));
  EXPECT_EQ(positions.of(whole_commit_, 1), (Range{3, 1}));
  EXPECT_EQ(positions.count(1), 4u);
  EXPECT_EQ(positions.sections(whole_, 1), (SectionRange{}));
}

TEST_F(PositionsTest, APartWithoutNodesHasOnePositionToo) {
  t_.plan().functions[0] = {.function = of_nodes(1), .commit_begin = 0, .sections = {{0, 7}}};
  const Positions positions(t_.plan());
  EXPECT_EQ(positions.of(cut_, 0), (Range{1, 1}));
  EXPECT_EQ(positions.of(commit_, 0), (Range{4, 1}));
  EXPECT_EQ(positions.modelled_ns(0, positions.of(cut_, 0)), 0);
  EXPECT_EQ(positions.modelled_ns(0, positions.of(commit_, 0)), 7);
}

TEST_F(PositionsTest, ASendAndItsReceiveCountWhereTheyRunAndTheGateEverywhere) {
  const Positions positions(t_.plan());
  EXPECT_EQ(positions.of(send_, 0), (Range{3, 1}));
  EXPECT_EQ(positions.of(send_, 1), (Range{}));
  EXPECT_EQ(positions.of(receive_, 0), (Range{}));
  EXPECT_EQ(positions.of(receive_, 1), (Range{0, 1}));
  EXPECT_EQ(positions.of(gate_, 0), (Range{4, 1}));
  EXPECT_EQ(positions.of(gate_, 1), (Range{2, 1}));
  EXPECT_EQ(positions.of(cut_, 1), (Range{}));
}

TEST_F(PositionsTest, EachPositionBelongsToOneNode) {
  const Positions positions(t_.plan());
  for (uint32_t slice = 0; slice < positions.slices(); ++slice) {
    uint32_t next = 0;
    for (uint32_t n = 0; n < t_.plan().nodes.size(); ++n) {
      const Range range = positions.of(n, slice);
      if (range.count > 0) {
        EXPECT_EQ(range.first, next);
      }
      for (uint32_t k = 0; k < range.count; ++k, ++next)
        EXPECT_EQ(positions.node_at(slice, next), n);
    }
    EXPECT_EQ(next, positions.count(slice));
  }
}

TEST_F(PositionsTest, ModelledTimeIsThatOfTheSections) {
  const Positions positions(t_.plan());
  std::vector<int64_t> each;
  for (uint32_t p = 0; p < positions.count(0); ++p)
    each.push_back(positions.modelled_ns(0, {p, 1}));
  EXPECT_EQ(each, (std::vector<int64_t>{0, 7, 5, 0, 0, 100, 1000}));
  EXPECT_EQ(positions.modelled_ns(0, {2, 4}), 105);
  EXPECT_EQ(positions.modelled_ns(0, {0, 7}), 1112);
  EXPECT_EQ(positions.modelled_ns(0, {7, 0}), 0);
  EXPECT_EQ(positions.modelled_ns(1, {0, 4}), 0);
}

TEST_F(PositionsTest, MoreThanASliceMayHaveAreRefused) {
  std::vector<LocalFunction::Section>& sections = t_.plan().functions[0].sections;
  sections.clear();
  t_.plan().functions[0].function = of_nodes(1 << 16);
  t_.plan().functions[0].commit_begin = 1 << 16;
  for (NodeId begin = 0; begin < 1 << 16; ++begin) sections.push_back({begin, kSectionNsMax});
  for (int call = 0; call < 62; ++call) t_.call("cut", 0, {}, {});
  const Positions most(t_.plan());
  EXPECT_EQ(most.modelled_ns(0, {0, most.count(0)}), kSectionNsMax * (63 << 16));
  t_.call("cut", 0, {}, {});
  try {
    Positions refused(t_.plan());
    FAIL() << refused.count(0) << " positions";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("slice 0 has more than 4194304 positions"));
  }
}

}  // namespace
}  // namespace gangway
