#include "controller/programs/more_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/plan/rows_overflow.h"
#include "tests/support/recovery/routed_rows.h"

namespace gangway {
namespace {

using testing::HasSubstr;

Program routed(double bound) {
  const AxisPlacements by_expert = {{"expert", shard(0)}};
  ProgramBuilder b("routed", Mesh{{{"expert", 4}}});
  const Value x = b.input("x", f32({4, 6, 3}), by_expert);
  const Value choice = b.input("choice", i32({4, 6, 1}), by_expert);
  const Value w = b.state("w", zeros(f32({4, 3, 5})), by_expert);
  b.output("y", sum(through_experts(x, choice, w, bound)));
  return b.build();
}

TEST(MoreRoomTest, BoundsGrowUntilTheProgramHasRoomForAllRows) {
  const MoreRoom first = more_room(routed(0.5));
  EXPECT_THAT(first.warning, HasSubstr("program \"routed\": more rows came to a device's experts"));
  EXPECT_THAT(first.warning, HasSubstr("bound 0.5 became 1 at more_room_test.cc:"));
  EXPECT_TRUE(may_overflow(*first.program));
  const MoreRoom second = more_room(*first.program), third = more_room(*second.program);
  EXPECT_THAT(second.warning, HasSubstr("bound 1 became 2 at more_room_test.cc:"));
  EXPECT_TRUE(may_overflow(*second.program));
  EXPECT_FALSE(may_overflow(*third.program));
}

}  // namespace
}  // namespace gangway
