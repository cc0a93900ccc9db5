// What every collective must do (executor/collectives/collective.h): same bits on all members,
// poison that reaches everyone, exchanges, many in a row.
//
// An implementation says how to run a body on each member of a group; see shm_collective_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "executor/collectives/collective.h"

namespace gangway {

// What a member's body uses: its collective, and a wait until it is done.
struct CollectiveMember {
  Collective& collective;
  std::function<void()> finish;
};

struct CollectiveMaker {
  std::string name;
  // Runs body on `size` members at once. False if a body returned false on any of them.
  std::function<bool(uint32_t size, int64_t bytes_max, std::function<bool(CollectiveMember&)> body)>
      run;
};

class CollectiveSuite : public testing::TestWithParam<CollectiveMaker> {};

}  // namespace gangway
