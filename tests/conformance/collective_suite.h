// Conformance suite of collectives (executor/collectives/collective.h): the specified results of
// each kind, equal bits on all members, poison that reaches all members, exchanges, many
// collectives in a row.
//
// An implementation provides a function that runs a body on each member of a group; see
// group_collective_test.cc and tests/cuda/cuda_collective_test.cc. Bodies use host memory only.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/collectives/collective_call.h"

namespace gangway {

// The least and the largest word of an exchange.
struct WordRange {
  uint64_t least = 0, most = 0;
};

// The functions that a member's body uses. Calls return when the collective is done.
struct CollectiveMember {
  uint32_t rank = 0, size = 0;
  // Runs a collective on tensors in host memory. Returns false if a member was poisoned.
  std::function<bool(const CollectiveCall&, bool poisoned)> run;
  // Exchanges words; gets the range of all members' words. Returns false if a member was poisoned.
  std::function<bool(uint64_t word, bool poisoned, WordRange& words)> exchange;
  // Error of this member's own part of the last collective.
  std::function<std::shared_ptr<const Error>()> failure;
};

using MemberBody = std::function<bool(CollectiveMember&)>;

struct CollectiveMaker {
  std::string name;
  // Runs body on `size` members at once, perhaps many times. False if a body returned false on any
  // of them.
  std::function<bool(uint32_t size, int64_t bytes_max, const MemberBody& body)> run;
  CollectiveKinds kinds = CollectiveKinds::all();
  bool in_tree_order = true;           // Sums follow rank_tree.h; else a library's order.
  bool scatters_as_it_reduces = true;  // A reduce-scatter has the bits of an all-reduce.
  size_t elements_max = 100'003;
  size_t rounds = 300;
  size_t cases = 12;  // Number of cases of each kind.
  // Why the implementation is missing on this machine, or empty; null if it is always available.
  std::function<std::string()> why_missing = nullptr;
};

class CollectiveSuite : public testing::TestWithParam<CollectiveMaker> {
 protected:
  void SetUp() override {
    const auto& why_missing = GetParam().why_missing;
    if (const std::string why = why_missing ? why_missing() : ""; !why.empty()) GTEST_SKIP() << why;
  }
};

}  // namespace gangway
