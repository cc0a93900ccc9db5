// Begin and end of `timed` steps on a CPU device, on a clock that the test sets.
#include <gtest/gtest.h>

#include <vector>

#include "executor/devices/cpu/cpu_function.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "tests/support/bare_device.h"

namespace gangway {
namespace {

constexpr int64_t kUs = 1000;

class TimedStepTest : public testing::Test {
 protected:
  // One call of y = body(x), ready to be advanced.
  template <class Body>
  void begin_call(const Body& body) {
    Builder b("steps");
    b.result("y", body(b.parameter("x", f32())));
    Function function = b.build();
    function.local = true;
    const auto shared = std::make_shared<const Function>(std::move(function));
    compiled_ = std::make_unique<CpuFunction>(
        LocalFunction{.function = shared,
                      .commit_begin = static_cast<NodeId>(shared->nodes.size())},
        par_);
    memory_.resize(2 * kDeviceAlignment + static_cast<size_t>(compiled_->arena_bytes()));
    frame_ = {};
    frame_.bases = {memory_.data(), memory_.data() + kDeviceAlignment,
                    memory_.data() + 2 * kDeviceAlignment};
    frame_.end = compiled_->step_count();
  }
  // Advances at this time, in a new turn. Returns when it wants to be woken; kNever: it has ended.
  int64_t wakes_at(int64_t now_ns) {
    stream_.clock_ns = now_ns;
    turn_ = std::make_unique<Turn>(Turn{.stream = stream_, .now_ns = now_ns});
    if (compiled_->advance(frame_, *turn_) == Progress::kDone) return kNever;
    return turn_->wake_at_ns;
  }
  // Advances once more in the same turn.
  int64_t then_wakes_at() {
    if (compiled_->advance(frame_, *turn_) == Progress::kDone) return kNever;
    return turn_->wake_at_ns;
  }

  Parallel par_{1};
  BareStream stream_;
  std::unique_ptr<CpuFunction> compiled_;
  std::vector<std::byte> memory_;
  CallFrame frame_;
  std::unique_ptr<Turn> turn_;
};

Value two_steps(Value x) { return timed(timed(x, 100), 200); }

TEST_F(TimedStepTest, AStepBeginsWhereTheOneBeforeEndedThoughTheThreadWokeLater) {
  begin_call(two_steps);
  EXPECT_EQ(wakes_at(1000 * kUs), 1100 * kUs);
  EXPECT_EQ(wakes_at(1160 * kUs), 1300 * kUs);
  EXPECT_EQ(wakes_at(1310 * kUs), kNever);
  EXPECT_EQ(device_time_ns(*turn_), 1300 * kUs);
  begin_call(two_steps);  // A call of another run, which has its tickets by then.
  EXPECT_EQ(then_wakes_at(), 1400 * kUs);
}

TEST_F(TimedStepTest, AStepThatEndedLongAgoLeavesTheNextOneNoWait) {
  begin_call(two_steps);
  wakes_at(1000 * kUs);
  EXPECT_EQ(wakes_at(9000 * kUs), kNever);
  EXPECT_EQ(device_time_ns(*turn_), 1300 * kUs);
}

TEST_F(TimedStepTest, OnADeviceThatHadNothingToDoAStepBeginsNow) {
  begin_call(two_steps);
  wakes_at(1000 * kUs);
  wakes_at(2000 * kUs);
  begin_call(two_steps);
  EXPECT_EQ(wakes_at(5000 * kUs), 5100 * kUs);
}

TEST_F(TimedStepTest, BehindAKernelAStepBeginsNow) {
  begin_call([](Value x) { return timed(timed(x, 100) + 1.0, 200); });
  wakes_at(1000 * kUs);
  EXPECT_EQ(wakes_at(1150 * kUs), 1350 * kUs);
}

}  // namespace
}  // namespace gangway
