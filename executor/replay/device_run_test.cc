#include "executor/replay/device_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "executor/links/sim_link.h"
#include "runtime/fibers/reactor.h"
#include "tests/support/bare_device.h"
#include "tests/support/deaf_listener.h"
#include "tests/support/test_plan.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A function of one step, whose kernel throws as a library below it may.
class Throwing final : public CompiledFunction {
 public:
  int64_t arena_bytes() const override { return 0; }
  uint32_t step_count() const override { return 1; }
  uint32_t commit_step() const override { return 1; }
  Progress advance(CallFrame& frame, Turn&) const override {
    poisoned.push_back(frame.poisoned);
    if (!frame.poisoned) throw std::bad_alloc();
    return Progress::kDone;
  }
  mutable std::vector<bool> poisoned;  // One element for each call.
};

// A run of two calls of this function.
struct TwoCalls {
  explicit TwoCalls(const std::shared_ptr<const CompiledFunction>& function) : kept(function) {
    TestPlan t("step", 1, 1);
    Builder b("half", t.mesh());
    b.result("y", b.parameter("x", f32({2})) * 0.5);
    const uint32_t x = t.input("x", f32({2}));
    const uint32_t between = t.value("", PlanStorage::kTemporary, f32({2}));
    const uint32_t y = t.output("y", f32({2}));
    const uint32_t half = t.function(b.build());
    t.call("first", half, {x}, {between});
    t.call("second", half, {between}, {y});
    laid.plan = t.share();
    laid.device = &device;
    laid.layout = lay_out(*laid.plan, laid.member, {function}, 0);
    laid.entries = {{.node = 0, .function = function.get(), .end = 1},
                    {.node = 1, .function = function.get(), .end = 1}};
    laid.entry_at = {{0, 1}};
    plan.memory = std::make_unique<ShareMemory>();
    plan.memory->arena = allocate_buffer(device.memory(), laid.layout.arena_bytes, "test");
    plan.memory->slots = allocate_buffer(device.memory(), laid.layout.slot_bytes, "test");
    plan.states.resize(laid.plan->values.size());
    run.emplace(plan, 0, reactor->mailbox(), listener);
  }
  void bind(RunId id) {
    run->bind({.run = id, .arguments = {nullptr}, .inline_bytes = {&bytes}, .outputs = {nullptr}});
  }

  const std::shared_ptr<const CompiledFunction> kept;
  std::unique_ptr<Reactor> reactor = Reactor::make_simulated();
  BareDevice device;
  LaidOutShare laid;
  LinkedShare links;
  DevicePlan plan{laid, links};
  DeafListener listener;
  const std::vector<std::byte> bytes = std::vector<std::byte>(8);
  std::optional<DeviceRun> run;
};

TEST(DeviceRunTest, AKernelThatThrowsPoisonsItsRunAndNothingElse) {
  const auto throwing = std::make_shared<Throwing>();
  TwoCalls calls(throwing);
  DeviceRun& run = *calls.run;
  for (uint64_t i = 1; i <= 2; ++i) {  // The record serves the next run like the first.
    throwing->poisoned.clear();
    calls.bind(RunId(i));
    Turn turn{calls.device.stream()};
    EXPECT_EQ(run.advance(turn), Progress::kPending) << "it has no tickets yet";
    EXPECT_TRUE(run.grant({.count = 2, .ticket = Ticket(2 * i)}));
    EXPECT_EQ(run.advance(turn), Progress::kDone);
    ASSERT_NE(run.error(), nullptr);
    EXPECT_EQ(run.error()->kind(), ErrorKind::kBug);
    EXPECT_THAT(run.error()->what(), HasSubstr("a kernel failed: std::bad_alloc"));
    EXPECT_EQ(run.error()->where().node, "first");
    EXPECT_TRUE(run.is_origin());
    EXPECT_THAT(throwing->poisoned, ElementsAre(false, true, true))
        << "a poisoned call still takes part in its collectives";
    run.release();
  }
}

TEST(DeviceRunTest, OnlyARunThatIsAloneGoesOnWithATicketThatIsNotTheNext) {
  class DoesNothing final : public CompiledFunction {
   public:
    int64_t arena_bytes() const override { return 0; }
    uint32_t step_count() const override { return 1; }
    uint32_t commit_step() const override { return 1; }
    Progress advance(CallFrame&, Turn&) const override { return Progress::kDone; }
  };
  TwoCalls calls(std::make_shared<DoesNothing>());
  DeviceRun& run = *calls.run;
  const auto grant = [&](uint32_t position, uint64_t ticket) {
    run.grant({.first = position, .count = 1, .ticket = Ticket(ticket)});
  };
  calls.bind(RunId(1));
  grant(0, 3);
  grant(1, 5);
  Turn among_others{calls.device.stream()};
  EXPECT_EQ(run.advance(among_others), Progress::kMore) << "another run may have ticket 4";
  EXPECT_EQ(run.advance(among_others), Progress::kDone);
  run.release();
  calls.bind(RunId(2));
  grant(0, 6);
  grant(1, 8);
  Turn alone{.stream = calls.device.stream(), .alone = true};
  EXPECT_EQ(run.advance(alone), Progress::kDone);
  run.release();
}

// Runs that send their input to another device, which has a slot for one run.
struct Sends {
  Sends() {
    TestPlan t("sends", 1, 2);
    t.plan().slices = {{TestPlan::mesh_of(1), {{0, 0, 1}}}, {TestPlan::mesh_of(1), {{0, 1, 1}}}};
    t.plan().runs_in_flight_max = 1;
    const uint32_t x = t.input("x", f32({2}));
    const uint32_t there = t.value("there", PlanStorage::kOutput, f32({2}), {}, 1);
    t.plan().outputs.push_back(there);
    t.transfer(x, there);
    laid.plan = t.share();
    laid.device = &device;
    laid.layout = lay_out(*laid.plan, laid.member, {}, 0);
    laid.entries = {{.kind = EntryKind::kSend, .node = 0, .value = x, .channel = 0}};
    laid.entry_at = {{0}, {}};
    AreaList areas;
    areas.add("inbox", slots.bytes());
    areas.add("released", 8);
    const auto nobody = std::make_shared<const std::function<void()>>([] {});
    SimLink link(std::make_shared<SimFabric>(), {{nullptr, nobody}});
    own = link.offer(areas);
    peer = link.open(own->offer());
    const uint64_t inbox = peer->place("inbox", slots.bytes());
    const uint64_t released = peer->place("released", 8);
    links.channels.push_back(
        {.slots = slots,
         .sender = TransferSender(slots, own->word(released), {peer.get(), inbox, 0})});
    receiver = TransferReceiver(slots, own->at(inbox), {peer.get(), released, 0});
    plan.memory = std::make_unique<ShareMemory>();
    plan.memory->slots = allocate_buffer(device.memory(), laid.layout.slot_bytes, "test");
    plan.states.resize(laid.plan->values.size());
    run.emplace(plan, 0, reactor->mailbox(), listener);
  }
  void begin(uint64_t number) {
    run->bind({.run = RunId(1 + number),
               .number = number,
               .arguments = {nullptr},
               .inline_bytes = {&bytes},
               .outputs = {nullptr}});
    run->grant({.count = 1, .ticket = Ticket(1 + number)});
  }
  Progress advance() {
    Turn turn{device.stream()};
    return run->advance(turn);
  }
  bool has_arrived(uint64_t number) const {
    return receiver.arrival(number).load() == TransferSlots::stamped(number, false);
  }

  const TransferSlots slots{8, 1};
  std::unique_ptr<Reactor> reactor = Reactor::make_simulated();
  BareDevice device;
  LaidOutShare laid;
  LinkedShare links;
  std::shared_ptr<OwnMemory> own;
  std::shared_ptr<PeerMemory> peer;
  TransferReceiver receiver;
  DevicePlan plan{laid, links};
  DeafListener listener;
  const std::vector<std::byte> bytes = std::vector<std::byte>(8);
  std::optional<DeviceRun> run;
};

TEST(DeviceRunTest, ASendWaitsUntilTheReceiverHasReleasedItsSlot) {
  Sends sends;
  sends.begin(0);
  EXPECT_EQ(sends.advance(), Progress::kDone);
  EXPECT_TRUE(sends.has_arrived(0));
  sends.run->release();
  sends.begin(1);
  EXPECT_EQ(sends.advance(), Progress::kPending);
  EXPECT_TRUE(sends.has_arrived(0)) << "the receiver still reads what came before";
  sends.receiver.release(0);
  EXPECT_EQ(sends.advance(), Progress::kDone);
  EXPECT_TRUE(sends.has_arrived(1));
}

TEST(DiagnosisTest, TheDevicesThreadGoesOnWhileTheReplayIsCompiled) {
  TestPlan t("step", 1, 1);
  Builder b("half", t.mesh());
  b.result("y", b.parameter("x", f32({2})) * 0.5);
  const uint32_t function = t.function(b.build());
  t.call("half", function, {t.input("x", f32({2}))}, {t.output("y", f32({2}))});
  BareDevice device;
  LaidOutShare share;
  share.plan = t.share();
  share.device = &device;
  share.entries = {{.node = 0, .end = 1}};
  const auto unfused = std::make_shared<Diagnosis::Unfused>();
  const std::vector<CallFrame> frames(1);
  Diagnosis diagnosis(share, nullptr, frames, unfused);
  Turn turn{device.stream()};
  EXPECT_EQ(diagnosis.advance(turn), Progress::kPending);
  EXPECT_EQ(device.compiler().compiled, 0);
  add_unfused(share, unfused->job);
  EXPECT_EQ(unfused->job.parts.size(), 1u);
}

}  // namespace
}  // namespace gangway
