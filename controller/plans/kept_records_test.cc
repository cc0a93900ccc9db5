#include "controller/plans/kept_records.h"

#include <gtest/gtest.h>

#include <vector>

namespace gangway::kept_records_test {
namespace {

using Calls = KeptRecords::Calls;

std::shared_ptr<const Plan> plan() { return std::make_shared<const Plan>(); }

TEST(KeptRecords, ThePlansThatWereAskedAboutLastAreKept) {
  KeptRecords records;
  std::vector<std::shared_ptr<const Plan>> plans;
  const auto calls = std::make_shared<const Calls>();
  for (size_t i = 0; i < KeptRecords::kPlansMax; ++i) {
    plans.push_back(plan());
    EXPECT_EQ(records.find(plans.back()), nullptr);
    records.keep(nullptr, plans.back(), calls);
  }
  EXPECT_EQ(records.find(plans.front()), calls);
  plans.push_back(plan());
  records.keep(nullptr, plans.back(), calls);
  EXPECT_EQ(records.find(plans[0]), calls);
  EXPECT_EQ(records.find(plans[1]), nullptr) << "it was asked for longest ago";
}

TEST(KeptRecords, RecordsOfADestroyedPlanAreDropped) {
  KeptRecords records;
  auto gone = plan();
  const auto calls = std::make_shared<const Calls>();
  records.keep(nullptr, gone, calls);
  EXPECT_EQ(calls.use_count(), 2);
  gone = nullptr;
  EXPECT_EQ(records.find(plan()), nullptr);
  EXPECT_EQ(calls.use_count(), 1);
}

}  // namespace
}  // namespace gangway::kept_records_test
