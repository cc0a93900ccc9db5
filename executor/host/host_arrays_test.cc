#include "executor/host/host_arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "executor/collectives/collective.h"
#include "executor/devices/device_schedule.h"
#include "executor/replay/device_run.h"
#include "tests/support/bare_device.h"
#include "tests/support/deaf_listener.h"
#include "tests/support/test_hosts.h"
#include "tests/support/test_plan.h"

namespace gangway {
namespace {

using testing::HasSubstr;

constexpr ArrayId kArray{100};

// The stream of a discrete device whose marks are all reached at once, when the queue has looked
// `looks` times. Work that is started before its first mark fails.
class LateStream final : public BareStream {
 public:
  explicit LateStream(int looks) : BareStream("late", /*discrete=*/true), looks_(looks) {}
  void push(Work& work, RankStream* rank_stream) override { queue.push(work, rank_stream); }

  DeviceSchedule queue;

 private:
  Mark make_mark() override { return ++marks_; }
  Progress look_for_mark(Mark mark, std::shared_ptr<const Error>* failure) override {
    if (--looks_ > 0) return Progress::kPending;
    if (mark == 1) *failure = std::make_shared<const Error>(ErrorKind::kUnavailable, "copy: broke");
    return Progress::kDone;
  }

  int looks_;
  Mark marks_ = 0;
};

class Nothing final : public CompiledFunction {
 public:
  int64_t arena_bytes() const override { return 0; }
  uint32_t step_count() const override { return 1; }
  uint32_t commit_step() const override { return 1; }
  Progress advance(CallFrame&, Turn&) const override { return Progress::kDone; }
};

// A gate of one member.
class LonelyGate final : public Collective {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t size() const override { return 1; }
  void begin(const CollectiveCall&, bool) override {}
  void begin_exchange(uint64_t, bool poisoned) override { poisoned_ = poisoned; }
  Progress advance() override { return Progress::kDone; }
  bool poisoned() const override { return poisoned_; }
  uint64_t least() const override { return 0; }
  uint64_t most() const override { return 0; }
  std::span<const uint64_t> words() const override { return {}; }

 private:
  bool poisoned_ = false;
};

// A call of this array, and a gate.
struct OneCall {
  OneCall(Reactor& reactor, Device& device) {
    TestPlan t("step", 1, 1);
    Builder b("half", t.mesh());
    b.result("y", b.parameter("x", f32({2})) * 0.5);
    const uint32_t half = t.function(b.build());
    t.call("half", half, {t.input("x", f32({2}))}, {t.output("y", f32({2}))});
    t.gate();
    laid.plan = t.share();
    laid.device = &device;
    laid.layout = lay_out(*laid.plan, laid.member, {function}, 0);
    laid.entries = {{.node = 0, .function = function.get(), .end = 1, .arguments = {0}},
                    {.kind = EntryKind::kGate, .node = 1, .meets_others = true}};
    laid.entry_at = {{0, 1}};
    links.gate = &gate;
    plan.memory = std::make_unique<ShareMemory>();
    plan.memory->arena = allocate_buffer(device.memory(), laid.layout.arena_bytes, "test");
    plan.memory->slots = allocate_buffer(device.memory(), laid.layout.slot_bytes, "test");
    plan.states.resize(laid.plan->values.size());
    run.emplace(plan, 0, reactor.mailbox(), listener);
  }
  void start(const BufferPtr& x) {
    run->bind({.run = RunId(1), .arguments = {x}, .inline_bytes = {nullptr}, .outputs = {nullptr}});
    run->grant({.count = 2, .ticket = Ticket(1)});
    laid.device->stream().enqueue(*run, plan.rank_stream);
  }

  const std::shared_ptr<const CompiledFunction> function = std::make_shared<Nothing>();
  LonelyGate gate;
  LaidOutShare laid;
  LinkedShare links;
  DevicePlan plan{laid, links};
  DeafListener listener;
  std::optional<DeviceRun> run;
};

// An array like the input of the call.
TensorShards input_of(const OneCall& call) {
  const Plan& plan = *call.laid.plan;
  const PlanValue& value = plan.values[plan.inputs[0]];
  TensorShards tensor{value.type, value.local_type, TestPlan::mesh_of(1), value.sharding, {}};
  DeviceMemory& memory = call.laid.device->memory();
  tensor.shards.push_back({.device = 0,
                           .mesh_device = 0,
                           .buffer = allocate_buffer(memory, tensor.local.bytes(), "array")});
  return tensor;
}

TEST(HostArraysTest, ARunCommitsNothingOfAnArrayWhosePutFailsWheneverThatIsKnown) {
  for (int looks = 1; looks <= 6; ++looks) {
    SCOPED_TRACE(looks);
    const auto reactor = Reactor::make_simulated();
    HostDevices devices(
        *reactor,
        {.name = "host-0", .kind = DeviceKind::kSim, .devices = 1, .memory_bytes = 1 << 20});
    auto late = std::make_unique<LateStream>(looks);
    LateStream& stream = *late;
    devices.all[0] = std::make_unique<BareDevice>(std::move(late));
    StateStore states;
    EventLog events;
    HostArrays arrays(*reactor, devices, states, events);
    OneCall call(*reactor, *devices.all[0]);
    const SharedSegment segment = SharedSegment::create(64);
    arrays.put(1, kArray, input_of(call), {segment.descriptor(), 0, 8});
    call.start(arrays.find(kArray)->on(0, 0)->buffer);
    Turn turn{stream};
    for (int i = 0; i < 8; ++i) stream.queue.advance(turn);
    ASSERT_EQ(stream.queue.advance(turn), Progress::kDone);
    ASSERT_NE(call.run->error(), nullptr);
    EXPECT_THAT(call.run->error()->what(), HasSubstr("copy: broke"));
    EXPECT_EQ(call.plan.last_committed, RunId()) << "it was let pass";
    reactor->run_until([&] { return events.transfers.contains(1); });
    EXPECT_TRUE(events.transfers[1].error);
  }
}

}  // namespace
}  // namespace gangway
