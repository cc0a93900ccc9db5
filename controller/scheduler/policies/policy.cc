#include "controller/scheduler/policies/policy.h"

#include <cmath>

#include "controller/scheduler/policies/fair_share.h"
#include "controller/scheduler/policies/first_come.h"
#include "controller/scheduler/policies/strict_priority.h"
#include "runtime/base/error.h"

namespace gangway {

void require_share(const std::string& who, const Share& share) {
  GW_REQUIRE(
      std::isfinite(share.weight) && share.weight >= kWeightMin && share.weight <= kWeightMax, who,
      ": its weight: expected ", kWeightMin, " to ", kWeightMax, ", got ", share.weight);
  GW_REQUIRE(share.priority >= -kPriorityMax && share.priority <= kPriorityMax, who,
             ": its priority: expected ", -kPriorityMax, " to ", kPriorityMax, ", got ",
             share.priority);
}

std::unique_ptr<GangPolicy> make_policy(const std::string& name) {
  if (name == "fifo") return std::make_unique<FirstCome>();
  if (name == "fair") return std::make_unique<FairShare>();
  if (name == "priority") return std::make_unique<StrictPriority>();
  throw Error(ErrorKind::kInvalid,
              cat("policy \"", name, "\": expected \"fifo\", \"fair\" or \"priority\""));
}

}  // namespace gangway
