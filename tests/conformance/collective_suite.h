// What every collective must do (executor/collectives/collective.h): each kind what its description
// says, the same bits on all members, poison that reaches everyone, exchanges, many in a row.
//
// An implementation says how to run a body on each member of a group; see
// group_collective_test.cc and tests/cuda/cuda_collective_test.cc. Bodies know host memory only.
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

// What a member's body uses; calls return when the collective is done.
struct CollectiveMember {
  uint32_t rank = 0, size = 0;
  // Of tensors in host memory. False: a member was poisoned.
  std::function<bool(const CollectiveCall&, bool poisoned)> run;
  // Of all members' words. False: a member was poisoned.
  std::function<bool(uint64_t word, bool poisoned, WordRange& words)> exchange;
  // Of what was done last: why this member's own part failed.
  std::function<std::shared_ptr<const Error>()> failure;
};

using MemberBody = std::function<bool(CollectiveMember&)>;

struct CollectiveMaker {
  std::string name;
  // Runs body on `size` members at once, perhaps many times. False if a body returned false on any
  // of them.
  std::function<bool(uint32_t size, int64_t bytes_max, const MemberBody& body)> run;
  CollectiveKinds kinds = CollectiveKinds::all();
  bool in_tree_order = true;  // rank_tree.h's over all members; else a library orders its sums.
  bool scatters_as_it_reduces = true;  // With the same bits.
  size_t elements_max = 100'003;
  size_t rounds = 300;
  size_t cases = 12;  // Of each kind.
  // Why it can't be had here; none: it always can.
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
