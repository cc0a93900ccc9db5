#include "controller/scheduler/policies/policy.h"

#include "controller/scheduler/policies/fair_share.h"
#include "controller/scheduler/policies/first_come.h"
#include "controller/scheduler/policies/strict_priority.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

struct Row {
  const char* name;
  std::unique_ptr<Policy> (*make)();
};

template <typename T>
std::unique_ptr<Policy> make() {
  return std::make_unique<T>();
}

constexpr Row kRows[] = {
    {"fair", make<FairShare>},
    {"fifo", make<FirstCome>},
    {"priority", make<StrictPriority>},
};

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<Policy> make_policy(const std::string& name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.make();
  }
  std::string all;
  for (const Row& row : kRows) all += cat(all.empty() ? "" : ", ", '"', row.name, '"');
  throw Error(ErrorKind::kInvalid, cat("policy \"", name, "\": expected one of ", all));
}

}  // namespace gangway
