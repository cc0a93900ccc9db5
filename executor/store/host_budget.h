// HostBudget: how much memory of its host an executor gives to the states of suspended programs,
// and to the texts that sources read. One owner's texts take at most half of it: a text is taken
// once for all owners that share it, and charged to each of them.
//
// Threads: any.
// Ownership: the values that take() and charge() return may outlive the budget.
// Errors: kOverloaded, naming what needs how much and how much is left.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/result.h"

namespace gangway {

class HostBudget {
 public:
  explicit HostBudget(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // The bytes count until the returned value is dropped.
  Result<std::shared_ptr<void>> take(int64_t bytes, const std::string& what);
  // Counts against the owner's half alone.
  Result<std::shared_ptr<void>> charge(int64_t bytes, const std::string& what,
                                       const std::string& owner);
  int64_t in_use() const;
  int64_t bytes_max() const { return bytes_max_; }
  int64_t of_one_owner_max() const { return bytes_max_ / 2; }

 private:
  struct Used {
    mutable std::mutex mutex;
    int64_t all = 0;
    std::map<std::string, int64_t> by_owner;  // Only owners that have some.
    void give_back(int64_t bytes);
    void give_back(int64_t bytes, const std::string& owner);
  };
  Error too_large(int64_t bytes, int64_t used, const std::string& what) const;
  Error too_much(int64_t bytes, int64_t used, const std::string& what,
                 const std::string& owner) const;

  const int64_t bytes_max_;
  const std::shared_ptr<Used> used_ = std::make_shared<Used>();
};

}  // namespace gangway
