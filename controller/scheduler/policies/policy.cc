#include "controller/scheduler/policies/policy.h"

#include "controller/scheduler/policies/fair_share.h"
#include "controller/scheduler/policies/first_come.h"
#include "controller/scheduler/policies/strict_priority.h"
#include "runtime/base/error.h"

namespace gangway {

std::unique_ptr<Policy> make_policy(const std::string& name) {
  if (name == "fifo") return std::make_unique<FirstCome>();
  if (name == "fair") return std::make_unique<FairShare>();
  if (name == "priority") return std::make_unique<StrictPriority>();
  throw Error(ErrorKind::kInvalid,
              cat("policy \"", name, "\": expected \"fifo\", \"fair\" or \"priority\""));
}

}  // namespace gangway
