// HostBudget: how much memory of its host an executor gives to the states of suspended programs,
// and to the texts that sources read.
//
// Threads: any.
// Ownership: what take() returns may outlive the budget.
// Errors: kOverloaded, naming what needs how much and how much is left.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.h"

namespace gangway {

class HostBudget {
 public:
  explicit HostBudget(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // Counted until the answer is dropped.
  Result<std::shared_ptr<void>> take(int64_t bytes, const std::string& what);
  int64_t in_use() const { return in_use_->load(); }
  int64_t bytes_max() const { return bytes_max_; }

 private:
  Error too_large(int64_t bytes, int64_t used, const std::string& what) const;

  const int64_t bytes_max_;
  const std::shared_ptr<std::atomic<int64_t>> in_use_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace gangway
