// Quotas: how much one owner may hold of the cluster at once, over all its clients.
//
// Devices are those of its slices, counted once for each slice; bytes are those that its clients
// have reserved on all devices; programs are its clients that have slices.
//
// Threads: a value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/base/error.h"

namespace gangway {

struct Quota {
  std::optional<int64_t> devices, memory_bytes, programs;  // None: no bound.
  // Bound of the controller's own memory (owner_use.h). None: the one in kOwnerBounds.
  std::optional<int64_t> controller_bytes;
  // Bound of the files of checkpoints that the cluster keeps, also of programs that have ended.
  std::optional<int64_t> checkpoint_bytes;
};

struct Quotas {
  std::map<std::string, Quota> owners;
  Quota others;  // For each owner that is not named.

  const Quota& of(const std::string& owner) const {
    const auto found = owners.find(owner);
    return found == owners.end() ? others : found->second;
  }
  bool bound_memory() const {
    return others.memory_bytes || std::ranges::any_of(owners, [](const auto& owner) {
             return owner.second.memory_bytes.has_value();
           });
  }
};

// A request that exceeds its owner's quota.
struct OverQuota {
  std::string owner;
  std::string limit;  // "8 devices"
  std::string held;   // "6 devices: client 1 of ada holds 6"
  std::string wanted;
  bool for_ever = false;  // The request alone is more than the quota.

  std::string text() const {
    return cat("the quota of owner \"", owner, "\" is ", limit, ": wanted ", wanted,
               ", beside what it holds: ", held);
  }
};

inline constexpr char kQuotaHint[] =
    "let something go, or ask who runs the controller for more (--config)";

}  // namespace gangway
