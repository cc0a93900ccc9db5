#include "client/runs_in_flight.h"

#include <gtest/gtest.h>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"

namespace gangway::internal {
namespace {

// y = x + x for so many floats. Each run in flight has an x and a y of its own.
Program doubled(int64_t elements) {
  ProgramBuilder b("doubled", Mesh{{{"data", 1}}});
  Value x = b.input("x", f32({elements}));
  b.output("y", x + x);
  return b.build();
}

TEST(RunsInFlight, MoreRunsAreInFlightWhereTheirInputsAndOutputsAreSmall) {
  EXPECT_EQ(default_runs_in_flight(doubled(1)), 64);
  EXPECT_EQ(default_runs_in_flight(doubled(8 << 10)), 64) << "64 KiB";
  EXPECT_EQ(default_runs_in_flight(doubled((8 << 10) + 1)), 8);
}

TEST(RunsInFlight, StatesDoNotCountAsInputsOrOutputsOfARun) {
  ProgramBuilder b("step", Mesh{{{"data", 1}}});
  Value w = b.state("w", zeros(f32({1 << 20})));
  b.update(w, w + b.input("x", f32()));
  EXPECT_EQ(default_runs_in_flight(b.build()), 64);
}

}  // namespace
}  // namespace gangway::internal
