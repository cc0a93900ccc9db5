#include "controller/service/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/plan/plan_text.h"

namespace gangway {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

// An executor that queues what it is told; the test answers, delays or fails.
class FakeExecutor final : public ExecutorPeer {
 public:
  Future<InstallReply> install(PlanId, const std::vector<std::byte>&, uint32_t, uint64_t) override {
    if (installing) return installing->future();
    InstallReply reply;
    for (uint32_t d = 0; d < devices; ++d) reply.needs.push_back({d, need_bytes, state_bytes, 0});
    return Future<InstallReply>(Result<InstallReply>(std::move(reply)));
  }
  Future<void> link(PlanId, const std::vector<OfferedSegment>&) override { return ready_future(); }
  Future<void> commit_install(PlanId) override {
    return commit ? commit->future() : ready_future();
  }
  void send(const Frame& frame) override { received.push_back(decode(frame)); }
  void hang_up() override { hung_up = true; }

  template <class T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const Message& message : received) {
      if (const T* item = std::get_if<T>(&message)) found.push_back(*item);
    }
    return found;
  }

  uint32_t devices = 2;
  int64_t need_bytes = 0;
  int64_t state_bytes = 0;
  std::optional<Promise<InstallReply>> installing;  // Set: what install waits for.
  std::optional<Promise<void>> commit;              // Set: what commit_install waits for.
  std::vector<Message> received;
  bool hung_up = false;
};

class FakeClient final : public ClientPeer {
 public:
  void send(const Frame& frame) override {
    if (auto* done = std::get_if<RunDoneFrame>(&received.emplace_back(decode(frame)))) {
      ended.push_back(*done);
    }
  }
  std::vector<Message> received;
  std::vector<RunDoneFrame> ended;
};

Program doubled(const Mesh& mesh) {
  ProgramBuilder b("doubled", mesh);
  Value x = b.input("x", f32());
  b.output("y", x + x);
  return b.build();
}

class ControllerTest : public testing::Test {
 protected:
  ControllerTest() {
    for (int i = 0; i < 2; ++i) {
      hosts_.push_back(controller_.add_host(
          {.name = "host-" + std::to_string(i), .devices = 2, .memory_bytes = 1000}, executor_[i]));
    }
    session_ = controller_.add_session("tester", client_);
  }

  PlanId compile(SessionId session, uint32_t runs_in_flight_max = 2) {
    return reactor_->run([&] {
      slice_ = controller_.allocate(session, 4).id;
      return controller_
          .compile(session, doubled(Mesh{{{"data", 4}}}), {slice_}, runs_in_flight_max)
          .id;
    });
  }
  std::optional<Error> compile_while_host_1_is_lost();

  RunId submit(SessionId session, PlanId plan, int64_t time_limit_ms = 0) {
    const RunId run((session.value << 40) + ++names_);
    RunFrame frame{.plan = plan, .run = run, .time_limit_ms = time_limit_ms};
    frame.arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}};
    frame.outputs = {ArrayId((session.value << 40) + ++names_)};
    last_output_ = frame.outputs[0];
    controller_.on_message(session, frame);
    return run;
  }

  void finish(size_t host, RunId run, std::optional<Error> error = {}) {
    controller_.on_message(hosts_[host], RunDoneFrame{.run = run, .error = error, .culprit = true});
  }

  std::vector<uint64_t> tickets(int host) {
    std::vector<uint64_t> first;
    for (const RunFrame& run : executor_[host].all<RunFrame>()) {
      first.push_back(run.first_ticket.value);
    }
    return first;
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executor_[2];
  FakeClient client_;
  Controller controller_{*reactor_};
  std::vector<HostId> hosts_;
  SessionId session_;
  SliceId slice_;  // That compile() made last.
  ArrayId last_output_;
  uint64_t names_ = 0;
};

TEST_F(ControllerTest, ARunIsOneFrameForEachHostWithTheSameTickets) {
  const PlanId plan = compile(session_);
  submit(session_, plan);
  submit(session_, plan);
  EXPECT_THAT(tickets(0), ElementsAre(1, 2));  // One node each.
  EXPECT_EQ(tickets(0), tickets(1));
}

TEST_F(ControllerTest, RunsOfTwoClientsReachAllHostsInOneOrder) {
  FakeClient other;
  const SessionId second = controller_.add_session("other", other);
  const PlanId a = compile(session_), b = compile(second);
  for (int i = 0; i < 2; ++i) {
    submit(session_, a);
    submit(second, b);
  }
  EXPECT_THAT(tickets(0), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(tickets(0), tickets(1));
}

TEST_F(ControllerTest, NoMoreRunsThanThePlanAllowsAreInFlight) {
  const PlanId plan = compile(session_, 2);
  for (int i = 0; i < 4; ++i) submit(session_, plan);
  EXPECT_EQ(tickets(0).size(), 2u);
  finish(0, RunId(1));
  EXPECT_EQ(tickets(0).size(), 2u) << "the other host is not done";
  finish(1, RunId(1));
  EXPECT_EQ(tickets(0).size(), 3u);
}

TEST_F(ControllerTest, TheClientHearsOfARunOnceAllItsHostsAreDone) {
  const RunId run = submit(session_, compile(session_));
  finish(0, RunId(1));
  EXPECT_TRUE(client_.ended.empty());
  finish(1, RunId(1));
  finish(1, RunId(1));
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(client_.ended[0].run, run);
  EXPECT_FALSE(client_.ended[0].error.has_value());
}

TEST_F(ControllerTest, TheHostThatRaisedAnErrorIsNamedAndNotTheOnesThatHeardOfIt) {
  submit(session_, compile(session_));
  controller_.on_message(
      hosts_[0], RunDoneFrame{.run = RunId(1), .error = Error(ErrorKind::kLost, "hearsay")});
  finish(1, RunId(1), Error(ErrorKind::kLost, "not finite"));
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("not finite"));
  EXPECT_EQ(client_.ended[0].error->where().host, "host-1");
}

TEST_F(ControllerTest, ACancelledRunThatWaitsEndsAtOnceAndOneInFlightIsStoppedByItsHosts) {
  const PlanId plan = compile(session_, 1);
  const RunId granted = submit(session_, plan), waiting = submit(session_, plan);
  const Error why(ErrorKind::kCancelled, "cancelled");
  controller_.on_message(session_, CancelFrame{waiting, why});
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(client_.ended[0].run, waiting);
  controller_.on_message(session_, CancelFrame{granted, why});
  EXPECT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(executor_[0].all<CancelFrame>().size(), 1u);
  EXPECT_EQ(executor_[1].all<CancelFrame>().size(), 1u);
}

// kUnavailable would tell them that a peer is gone, and each to go its own way.
TEST_F(ControllerTest, WhateverAClientCallsItsReasonToItsHostsItIsACancellation) {
  const RunId run = submit(session_, compile(session_));
  controller_.on_message(session_, CancelFrame{run, Error(ErrorKind::kUnavailable, "enough")});
  const std::vector<CancelFrame> told = executor_[0].all<CancelFrame>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].error.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(told[0].error.what(), HasSubstr("enough"));
}

TEST_F(ControllerTest, ARunThatItsHostsEndedBeforeTheyHeardOfItsCancellationHasNotFailed) {
  const RunId run = submit(session_, compile(session_));
  controller_.on_message(session_, CancelFrame{run, Error(ErrorKind::kCancelled, "cancelled")});
  finish(0, RunId(1));
  finish(1, RunId(1));
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_FALSE(client_.ended[0].error.has_value()) << "it has committed";
}

TEST_F(ControllerTest, ARunPastItsTimeLimitIsCancelledSayingSo) {
  const PlanId plan = compile(session_, 1);
  submit(session_, plan);
  submit(session_, plan, 500);
  const int64_t now_ns = reactor_->clock().now_ns();
  EXPECT_LE(controller_.tick(now_ns), now_ns + 500'000'000);
  EXPECT_TRUE(client_.ended.empty());
  controller_.tick(now_ns + 500'000'000);
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(client_.ended[0].error->kind(), ErrorKind::kCancelled);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("limit of 500 ms"));
}

TEST_F(ControllerTest, AVeryLongTimeLimitIsNone) {
  const PlanId plan = compile(session_);
  submit(session_, plan, std::numeric_limits<int64_t>::max());
  controller_.tick(reactor_->clock().now_ns());
  EXPECT_TRUE(executor_[0].all<CancelFrame>().empty());
}

TEST_F(ControllerTest, ALostHostFailsExactlyTheRunsThatUseItAndLaterOnes) {
  const PlanId plan = compile(session_);
  submit(session_, plan);
  controller_.host_lost(hosts_[1], Error(ErrorKind::kUnavailable, "its connection ended"));
  ASSERT_EQ(client_.ended.size(), 1u) << "host-0 may wait for host-1 for ever";
  EXPECT_EQ(executor_[0].all<CancelFrame>().size(), 1u);
  finish(0, RunId(1));
  submit(session_, plan);
  ASSERT_EQ(client_.ended.size(), 2u);
  for (const RunDoneFrame& done : client_.ended) {
    EXPECT_EQ(done.error->kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(done.error->what(), HasSubstr("host-1"));
  }
}

TEST_F(ControllerTest, APlanThatLostAHostLeavesTheDevicesOfTheOthersAtOnce) {
  const PlanId plan = compile(session_);
  submit(session_, plan);
  controller_.host_lost(hosts_[1], Error(ErrorKind::kUnavailable, "its connection ended"));
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u) << "its run may wait for ever";
  controller_.release_plan(plan);
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u);
  EXPECT_EQ(controller_.counts().plans, 0u);
}

TEST_F(ControllerTest, AClientThatGoesWhileItCompilesLeavesNothing) {
  executor_[1].commit.emplace();
  std::optional<Error> failed;
  Fiber compiling = reactor_->spawn("compile", [&] {
    try {
      const SliceId slice = controller_.allocate(session_, 4).id;
      controller_.compile(session_, doubled(Mesh{{{"data", 4}}}), {slice}, 2);
    } catch (const Error& error) {
      failed = error;
    }
  });
  reactor_->run_ready();
  ASSERT_EQ(controller_.counts().plans, 1u);
  controller_.session_closed(session_);
  executor_[1].commit->set();
  compiling.join();
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->kind(), ErrorKind::kCancelled);
  EXPECT_EQ(controller_.counts().plans + controller_.counts().slices, 0u);
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u);
}

// What compiling on all four devices ends with when host-1 answers no more.
std::optional<Error> ControllerTest::compile_while_host_1_is_lost() {
  std::optional<Error> failed;
  Fiber compiling = reactor_->spawn("compile", [&] {
    try {
      const SliceId slice = controller_.allocate(session_, 4).id;
      controller_.compile(session_, doubled(Mesh{{{"data", 4}}}), {slice}, 2);
    } catch (const Error& error) {
      failed = error;
    }
  });
  reactor_->run_ready();
  EXPECT_FALSE(failed.has_value());
  controller_.host_lost(hosts_[1], Error(ErrorKind::kUnavailable, "it has said nothing"));
  reactor_->run_ready();
  if (!failed) compiling.cancel();
  return failed;
}

TEST_F(ControllerTest, AHostThatIsLostWhileItInstallsAPlanEndsTheCompilation) {
  executor_[1].installing.emplace();
  const std::optional<Error> failed = compile_while_host_1_is_lost();
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(failed->what(), HasSubstr("\"host-1\" is gone: it has said nothing"));
  EXPECT_EQ(controller_.counts().plans, 0u);
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u);
}

TEST_F(ControllerTest, AHostThatIsLostWhileItCommitsAPlanEndsTheCompilation) {
  executor_[1].commit.emplace();
  const std::optional<Error> failed = compile_while_host_1_is_lost();
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(controller_.counts().plans, 0u);
}

TEST_F(ControllerTest, StateIsReadBehindRunsThatWaitAndAheadOfLaterOnes) {
  const PlanId plan = compile(session_, 1);
  submit(session_, plan);
  submit(session_, plan);
  controller_.on_message(
      session_,
      TransferFrame{
          .request = 7, .kind = TransferKind::kGetState, .scope = slice_.value, .name = "w"});
  submit(session_, plan);
  const auto order = [this] {
    std::string text;
    for (const Message& message : executor_[0].received) {
      if (std::holds_alternative<RunFrame>(message)) text += "run ";
      if (std::holds_alternative<TransferFrame>(message)) text += "read ";
    }
    return text;
  };
  EXPECT_EQ(order(), "run ");
  for (uint64_t run = 1; run <= 3; ++run) {
    finish(0, RunId(run));
    finish(1, RunId(run));
  }
  EXPECT_EQ(order(), "run run read run ");
  EXPECT_EQ(client_.ended.size(), 3u);
}

TEST_F(ControllerTest, TheBytesOfStatesAreHeldUntilTheirSliceIsReleased) {
  const auto reserved = [this] { return controller_.hosts().at(hosts_[0]).reserved[0]; };
  for (FakeExecutor& executor : executor_) {
    executor.need_bytes = 100;
    executor.state_bytes = 300;
  }
  const PlanId first = compile(session_);
  EXPECT_EQ(reserved(), 400);
  controller_.release_plan(first);
  EXPECT_EQ(reserved(), 300) << "the next program on the slice finds its states there";
  controller_.release_slice(slice_);
  EXPECT_EQ(reserved(), 0);
  EXPECT_EQ(executor_[0].all<FreeScopeFrame>().size(), 1u);
}

TEST_F(ControllerTest, AHostThatSaysNothingIsLostInBoundedTime) {
  submit(session_, compile(session_));
  const int64_t later_ns = reactor_->clock().now_ns() + 11'000'000'000;
  controller_.tick(later_ns);
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("said nothing for 10000 ms"));
  EXPECT_TRUE(executor_[0].hung_up && executor_[1].hung_up);
}

TEST_F(ControllerTest, AnArrayIsFreedOnItsHostsWhenNeitherClientNorRunHoldsIt) {
  submit(session_, compile(session_));
  controller_.on_message(session_, FreeFrame{{last_output_}});
  EXPECT_TRUE(executor_[0].all<FreeFrame>().empty()) << "the run still makes it";
  finish(0, RunId(1));
  finish(1, RunId(1));
  ASSERT_EQ(executor_[0].all<FreeFrame>().size(), 1u);
  EXPECT_THAT(executor_[1].all<FreeFrame>()[0].arrays, ElementsAre(last_output_));
}

TEST_F(ControllerTest, WhatALostClientHeldIsFreed) {
  submit(session_, compile(session_));
  controller_.session_closed(session_);
  finish(0, RunId(1));
  finish(1, RunId(1));
  const ControllerCounts counts = controller_.counts();
  EXPECT_EQ(counts.clients + counts.slices + counts.plans + counts.arrays + counts.runs, 0u);
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u);
  EXPECT_EQ(executor_[0].all<FreeScopeFrame>().size(), 1u);
}

TEST_F(ControllerTest, OutputsThatAreKeptRunOutOfMemoryByNameAndNotByWaiting) {
  const PlanId plan = compile(session_, 1);
  size_t overloaded = 0;
  for (uint64_t i = 1; i <= 260 && overloaded == 0; ++i) {  // 4 bytes each, 1000 on a device.
    submit(session_, plan);
    if (!client_.ended.empty() && client_.ended.back().error) {
      EXPECT_EQ(client_.ended.back().error->kind(), ErrorKind::kOverloaded);
      EXPECT_THAT(client_.ended.back().error->what(), HasSubstr("\"tester\" holds"));
      ++overloaded;
    }
    finish(0, RunId(i));
    finish(1, RunId(i));
  }
  EXPECT_EQ(overloaded, 1u);
}

TEST_F(ControllerTest, AProgramThatDoesNotFitIsRefusedAndLeavesNothing) {
  executor_[1].need_bytes = 2000;
  try {
    compile(session_);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(error.what(), HasSubstr("host-1/device 0"));
  }
  EXPECT_EQ(controller_.counts().plans, 0u);
  EXPECT_EQ(controller_.hosts().at(hosts_[0]).reserved[0], 0);
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u);
}

TEST_F(ControllerTest, AnArrayOfAnotherClientIsRefused) {
  FakeClient other;
  const SessionId second = controller_.add_session("other", other);
  const PlanId plan = compile(session_);
  RunFrame frame{.plan = plan, .run = RunId(second.value << 40)};
  controller_.on_message(second, frame);
  ASSERT_EQ(other.ended.size(), 1u);
  EXPECT_THAT(other.ended[0].error->what(), HasSubstr("not a plan of this client"));
}

TEST(LowerTest, StateUpdatesCommitBehindTheGate) {
  const Mesh mesh{{{"data", 4}}};
  ProgramBuilder b("step", mesh);
  Value w = b.state("w", zeros(f32({8})));
  Value x = b.input("x", f32({16, 8}), {{"data", shard(0)}});
  Value next = w + sum(x, {0});
  b.update(w, next);
  b.output("loss", sum(next, {0}));
  b.require_finite("loss");
  CompileCache cache;
  const Program program = b.build();
  const LowerOptions options{.slices = {{{0, 0, 2}, {1, 0, 2}}}, .hosts = {"host-0", "host-1"}};
  const std::string text = to_text(lower(program, options, cache));
  EXPECT_THAT(text, HasSubstr("plan @step over host-0 host-1, 2 runs in flight\n"
                              "  slice 0 {data: 4} on host-0:0-1 host-1:0-1\n"));
  EXPECT_THAT(text, HasSubstr("%0 state \"w\": f32[8] {}\n"));
  EXPECT_THAT(text, HasSubstr("%1 input \"x\": f32[16, 8] {data: shard(0)} -> f32[4, 8]\n"));
  EXPECT_THAT(text, HasSubstr("%2 output \"loss\": f32[] {}\n"));
  EXPECT_THAT(text, HasSubstr("0: call main(%0, %1) ["));
  EXPECT_THAT(text, HasSubstr("-> %0, %2"));
  EXPECT_THAT(text, HasSubstr("  1: gate (%2)\n  2: commit 0"));
  lower(program, options, cache);
  EXPECT_GE(cache.hits(), 2u);
}

}  // namespace
}  // namespace gangway
