#include "ir/plan/sequential.h"

namespace gangway {

bool is_sequential(const Plan& plan) { return plan.dispatch == Dispatch::kSequential; }

std::string why_sequential(const Plan& plan) {
  return is_sequential(plan) ? "its client compiled it with CompileOptions::dispatch sequential"
                             : "";
}

}  // namespace gangway
