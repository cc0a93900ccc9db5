#include "controller/controller.h"

#include <gmock/gmock.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>

#include "controller/scheduler/earlier_schedule.h"
#include "ir/plan/plan_text.h"
#include "ir/wire/wire.h"
#include "protocol/messages.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(ControllerTest, AClientThatGoesWhileItCompilesLeavesNothing) {
  executor_[1].commit.emplace();
  Fiber fiber = compiling(session_);
  ASSERT_EQ(controller_.counts().plans, 1u);
  controller_.session_closed(session_);
  executor_[1].commit->set();
  fiber.join();
  ASSERT_TRUE(compile_failed_.has_value());
  EXPECT_EQ(compile_failed_->kind(), ErrorKind::kCancelled);
  EXPECT_EQ(controller_.counts().plans + controller_.counts().slices, 0u);
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u);
}

TEST_F(ControllerTest, ResourcesOfALostClientAreFreed) {
  submit(session_, compile(session_));
  controller_.session_closed(session_);
  finish(0, RunId(1));
  finish(1, RunId(1));
  const ControllerCounts counts = controller_.counts();
  EXPECT_EQ(counts.clients + counts.slices + counts.plans + counts.arrays + counts.runs, 0u);
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u);
  EXPECT_EQ(executor_[0].all<FreeScopeFrame>().size(), 1u);
}

TEST_F(ControllerTest, TheLogNamesAClientThatEndsWithRunsUnderWay) {
  const TempDir dir;
  const std::string file = (dir.path() / "log").string();
  {
    const Logs logs({.levels = "warn", .file = file});
    FakeExecutor executor;
    FakeClient client;
    Controller controller(*reactor_, {.log = logs.module("controller")});
    controller.add_host({.name = "host", .devices = 2, .memory_bytes = 1000}, executor);
    const SessionId session = controller.programs().add("trainer", "ada", client);
    const PlanId plan = reactor_->run([&] {
      const SliceId slice = controller.allocate(session, {2}).id;
      return controller.compile(session, doubled(Mesh{{{"data", 2}}}), {slice}, {2}).id;
    });
    RunFrame frame{.plan = plan, .run = RunId((session.value << 40) + 1)};
    frame.arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}};
    frame.outputs = {ArrayId((session.value << 40) + 2)};
    controller.on_message(session, frame);
    controller.session_closed(session);
  }
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(text, HasSubstr("client ended with runs under way  client=trainer runs=1"));
}

TEST_F(ControllerTest, AnArrayOfAnotherClientIsRefused) {
  FakeClient other;
  const SessionId second = controller_.programs().add("other", "ada", other);
  const PlanId plan = compile(session_);
  RunFrame frame{.plan = plan, .run = RunId(second.value << 40)};
  controller_.on_message(second, frame);
  ASSERT_EQ(other.ended.size(), 1u);
  EXPECT_THAT(other.ended[0].error->what(), HasSubstr("not a plan of this client"));
}

// Frames of all kinds, with ids that nobody knows.
std::vector<Message> every_frame() {
  const Error error(ErrorKind::kInvalid, "made up");
  return {UninstallFrame{PlanId(77)},
          RunFrame{.plan = PlanId(77), .run = RunId(77)},
          PrepareFrame{.ordinal = 7, .run = {.plan = PlanId(77), .run = RunId(77)}},
          GrantFrame{{{.run = RunId(77), .slice = 3, .count = 1, .ticket = Ticket(7)}}},
          CancelFrame{RunId(77), error},
          FreeFrame{{ArrayId(77)}},
          HostTransferFrame{.request = 77, .kind = HostTransferKind::kGet, .array = ArrayId(77)},
          HostTransferFrame{.request = 78, .kind = HostTransferKind::kPut, .plan = PlanId(77)},
          HostTransferFrame{
              .request = 79, .kind = HostTransferKind::kReadState, .scope = {77}, .name = "w"},
          HostTransferFrame{
              .request = 80, .kind = HostTransferKind::kWriteState, .scope = {77}, .name = "w"},
          HostTransferDoneFrame{77, error},
          RunDoneFrame{.run = RunId(77), .error = error, .times = {{RunId(77), 9, 9, 9}}},
          ProgressFrame{{{RunId(77), 9, 9, 9}}},
          HeartbeatFrame{.runs_done = 77},
          FreeScopeFrame{{77}},
          WarningFrame{"made up"},
          ReleaseFrame{{77}},
          LinkBrokenFrame{PlanId(77), 0, "made up"}};
}

bool ends_connection(const std::function<void()>& receive) {
  try {
    receive();
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << error.what();
    return true;
  }
}

TEST_F(ControllerTest, UnexpectedFramesEndTheirSendersConnectionOrAreIgnored) {
  EXPECT_EQ(every_frame().size(), std::variant_size_v<Message> + 3) << "copies are of four kinds";
  // Both before anything runs and while a run is under way on both hosts.
  for (const bool running : {false, true}) {
    if (running) submit(session_, compile(session_));
    const ControllerCounts before = controller_.counts();
    // One letter for each frame of every_frame(): E if it ends the connection.
    std::string clients, executors;
    for (const Message& message : every_frame()) {
      clients += ends_connection([&] { controller_.on_message(session_, message); }) ? 'E' : '.';
      executors += ends_connection([&] { controller_.on_message(hosts_[0], message); }) ? 'E' : '.';
    }
    EXPECT_EQ(clients, "E.EE......EEEEEE.E")
        << "runs, cancels, frees, copies and releases are a client's";
    EXPECT_EQ(executors, "EEEEEEEEEE....EEE.")
        << "ends, progress, heartbeats and broken links are an executor's";
    const ControllerCounts after = controller_.counts();
    EXPECT_EQ(after.runs, before.runs);
    EXPECT_EQ(after.arrays, before.arrays);
    EXPECT_EQ(after.transfers, before.transfers);
    EXPECT_EQ(after.hosts, 2u);
  }
}

TEST_F(ControllerTest, RepeatedReportsOfARunAndReportsOfUninvolvedHostsAreIgnored) {
  submit(session_, compile(session_));
  FakeExecutor third;
  const HostId other =
      controller_.add_host({.name = "host-2", .devices = 2, .memory_bytes = 1000}, third);
  const RunId run(1);
  controller_.on_message(other, RunDoneFrame{.run = run});
  controller_.on_message(other, ProgressFrame{{{run, 0, 1, 1000}}});
  finish(0, run);
  finish(0, run);
  EXPECT_THAT(client_.ended, IsEmpty()) << "host-1 is not done";
  EXPECT_EQ(controller_.counts().runs, 1u);
  finish(1, run);
  EXPECT_EQ(client_.ended.size(), 1u);
  finish(1, run);
  EXPECT_EQ(client_.ended.size(), 1u);
}

TEST_F(ControllerTest, ProgressBeyondWhatWasGrantedEndsTheHostsConnection) {
  submit(session_, compile(session_));
  EXPECT_TRUE(ends_connection(
      [&] { controller_.on_message(hosts_[0], ProgressFrame{{{RunId(1), 0, 99, 1000}}}); }));
  EXPECT_TRUE(ends_connection(
      [&] { controller_.on_message(hosts_[0], ProgressFrame{{{RunId(1), 9, 1, 1000}}}); }));
}

// Hosts that do not have the plan yet would end their connections over such a run.
TEST_F(ControllerTest, ARunOfAPlanThatIsStillBeingInstalledIsItsClientsErrorAndReachesNoHost) {
  executor_[1].commit.emplace();
  Fiber fiber = compiling(session_);
  const PlanId plan(1);
  submit(session_, plan);
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_EQ(client_.ended[0].error->kind(), ErrorKind::kInvalid);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("is still being compiled"));
  EXPECT_TRUE(tickets(0).empty() && tickets(1).empty());
  executor_[1].commit->set();
  fiber.join();
  EXPECT_FALSE(compile_failed_.has_value());
  submit(session_, plan);
  EXPECT_EQ(tickets(0).size(), 1u);
}

// A host is given up when 32 MiB wait to be sent to it.
TEST_F(ControllerTest, AReasonOf40MiBReachesTheHostsOfARunCut) {
  const RunId run = submit(session_, compile(session_));
  Error why(ErrorKind::kCancelled, std::string(40 << 20, 'x'), {.node = std::string(1 << 20, 'y')});
  controller_.on_message(session_, CancelFrame{run, why});
  const std::vector<CancelFrame> cancels = executor_[0].all<CancelFrame>();
  ASSERT_EQ(cancels.size(), 1u);
  const std::string text = cancels[0].error.what();
  EXPECT_LT(text.size(), 16u << 10);
  EXPECT_THAT(text, HasSubstr("xxx... (cut: 41943040 bytes)"));
  EXPECT_THAT(text, HasSubstr("yyy... (cut: 1048576 bytes)"));
}

TEST_F(ControllerTest, ALongClientNameIsCutAndErrorsOfOthersNameItsOwnerInstead) {
  FakeClient other;
  const SessionId second = controller_.programs().add(std::string(1 << 20, 'n'), "ada", other);
  for (FakeExecutor& executor : executor_) executor.need_bytes = 900;
  compile(second);
  try {
    compile(session_);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("client 2 of ada holds 900 B"));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("nnn")));
  }
  EXPECT_THAT(controller_.program_counts()[1].name, HasSubstr("nnn... (cut: 1048576 bytes)"));
}

TEST_F(ControllerTest, AStateWithANameOf1MiBIsRefusedBeforeItReachesAHost) {
  compile(session_);
  HostTransferFrame get{
      .request = 7, .kind = HostTransferKind::kReadState, .scope = {slice_.value}};
  get.name = std::string(1 << 20, 's');
  controller_.on_message(session_, get);
  EXPECT_TRUE(executor_[0].all<HostTransferFrame>().empty());
  ASSERT_EQ(client_.received.size(), 1u);
  const auto* done = std::get_if<HostTransferDoneFrame>(&client_.received[0]);
  ASSERT_TRUE(done != nullptr && done->error.has_value());
  EXPECT_THAT(done->error->what(), HasSubstr("sss... (cut: 1048576 bytes)"));
  EXPECT_LT(done->error->message().size(), 16u << 10);
}

TEST_F(ControllerTest, AProgramWithANameOf1MiBIsRefused) {
  const SliceId slice = controller_.allocate(session_, {4}).id;
  Program program = doubled(Mesh{{{"data", 4}}});
  program.nodes[0].name = std::string(1 << 20, 'p');
  try {
    reactor_->run([&] { controller_.compile(session_, program, {slice}, {2}); });
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("ppp... (cut: 1048576 bytes)"));
  }
}

TEST_F(ControllerTest, AClosedClientIsForgottenAndItsLateMessagesLeaveNothing) {
  const PlanId plan = compile(session_);
  controller_.session_closed(session_);
  const auto refused = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kUnavailable;
    }
    return false;
  };
  EXPECT_TRUE(refused([&] { controller_.allocate(session_, {4}); }));
  EXPECT_TRUE(
      refused([&] { controller_.compile(session_, doubled(Mesh{{{"data", 4}}}), {slice_}, {2}); }));
  submit(session_, plan);
  EXPECT_TRUE(client_.received.empty());
  controller_.session_closed(session_);
  const ControllerCounts counts = controller_.counts();
  EXPECT_EQ(counts.clients + counts.slices + counts.plans + counts.arrays + counts.runs, 0u);
}

TEST_F(ControllerTest, ProgramsAreListedWithTheirSharesAndRuns) {
  FakeClient other;
  controller_.programs().add("urgent", "bob", other, {.weight = 4, .priority = 7});
  const PlanId plan = compile(session_, 1);
  for (int i = 0; i < 3; ++i) submit(session_, plan);
  finish_everywhere(1);
  controller_.programs().open(session_).set_share({.weight = 2});
  const std::vector<ProgramCounts> programs = controller_.program_counts();
  ASSERT_EQ(programs.size(), 2u);
  EXPECT_EQ(programs[0].name, "tester");
  EXPECT_EQ(programs[0].share.weight, 2);
  EXPECT_EQ(programs[0].runs_waiting, 1u);
  EXPECT_EQ(programs[0].runs_in_flight, 1u);
  EXPECT_EQ(programs[0].runs_done, 1u);
  EXPECT_EQ(programs[0].owner, "ada");
  EXPECT_EQ(programs[1].name, "urgent");
  EXPECT_EQ(programs[1].owner, "bob");
  EXPECT_EQ(programs[1].share, (Share{.weight = 4, .priority = 7}));
}

TEST_F(ControllerTest, AClientHasNoMoreExecutablesThanItsRecordMayHave) {
  FakeExecutor executor;
  FakeClient client;
  Controller controller(*reactor_, {.plans_max = 2});
  controller.add_host({.name = "host", .devices = 2, .memory_bytes = 1000}, executor);
  const SessionId session = controller.programs().add("trainer", "ada", client);
  reactor_->run([&] {
    const SliceId slice = controller.allocate(session, {2}).id;
    const auto compile = [&] {
      return controller.compile(session, doubled(Mesh{{{"data", 2}}}), {slice}, {2}).id;
    };
    const PlanId first = compile();
    compile();
    const Error error = error_of(compile);
    EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(error.what(),
                HasSubstr("compile: this client has 2 executables: expected at most 2"));
    controller.path().release_plan(first);
    compile();
  });
  EXPECT_EQ(ControllerOptions().plans_max, ProgramRecord::kExecutablesMax);
}

// Names are written down, and read when the next controller starts.
TEST_F(ControllerTest, AHostsNameThatCouldNotBeReadBackIsRefused) {
  FakeExecutor executor;
  for (const char* name : {"", "caf\xE9"})
    EXPECT_EQ(error_of([&] { controller_.add_host({.name = name}, executor); }).kind(),
              ErrorKind::kInvalid);
  EXPECT_EQ(controller_.counts().hosts, 2u);
}

TEST_F(ControllerTest, AnIslandWithABadNameIsRefused) {
  FakeExecutor executor;
  EXPECT_THROW(controller_.add_host({.name = "h", .island = "a b"}, executor), Error);
  EXPECT_THROW(controller_.add_host({.name = "h", .island = ""}, executor), Error);
}

TEST_F(ControllerTest, MetricsCountTheBytesThatHostsMovedByLinkClass) {
  controller_.on_message(hosts_[0], HeartbeatFrame{.moved = {10, 20, 0}});
  controller_.on_message(hosts_[0], HeartbeatFrame{.moved = {10, 25, 3}});
  const std::string text = controller_.tables().metrics.to_prometheus();
  const auto line = [](const char* link, int bytes) {
    return HasSubstr(
        cat("gangway_link_bytes_total{host=\"host-0\",link=\"", link, "\"} ", bytes, "\n"));
  };
  EXPECT_THAT(text, line("host", 10));
  EXPECT_THAT(text, line("island", 25));
  EXPECT_THAT(text, line("between", 3));
}

TEST_F(ControllerTest, APlanSaysWhichIslandEachOfItsHostsLiesIn) {
  FakeExecutor far;
  controller_.add_host({.name = "far", .devices = 2, .island = "west"}, far);
  reactor_->run([&] {
    const SliceId all = controller_.allocate(session_, {6}).id;
    const PlanRecord& record =
        controller_.compile(session_, doubled(Mesh{{{"data", 6}}}), {all}, {1});
    EXPECT_THAT(record.plan->islands, testing::ElementsAre("main", "main", "west"));
    EXPECT_THAT(to_text(*record.plan), HasSubstr("over host-0 (main) host-1 (main) far (west),"));
  });
}

TEST_F(ControllerTest, InputsOfARepetitionCountAsMemoryOfItsOwner) {
  const PlanId plan = compile(session_);
  const auto used = [&] {
    return controller_.tables().owner_use.used("ada", OwnerResource::kMemory);
  };
  const uint64_t before = used();
  const auto list = std::make_shared<const EarlierSchedule>(EarlierSchedule::List(1000, 1.0));
  const RepeatRequest asked{.number = 1,
                            .plan = plan,
                            .steps = 1000,
                            .inputs = {},
                            .earlier = {{.input = 0, .schedule = list}},
                            .first = RunId((session_.value << 40) + 1)};
  reactor_->run([&] { controller_.repeat(session_, asked); });
  EXPECT_GE(used(), before + 8000);
  controller_.session_closed(session_);
  EXPECT_EQ(used(), 0u);
}

// A controller that gives each owner little of its memory, and a client each of ann and bob.
class OwnersMemoryTest : public ::testing::Test {
 protected:
  PlanId compile(SessionId session, SliceId slice) {
    return reactor_->run([&] {
      auto [program, held] = controller_.read_program(session, to_wire(doubled(Mesh{{{"d", 4}}})));
      return controller_.compile(session, std::move(program), {slice}, {.held = std::move(held)})
          .id;
    });
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executor_;
  FakeClient client_;
  Controller controller_{*reactor_, {.owner_bounds = {64 << 10, 100, 100, 1 << 20}}};
  HostId host_ = controller_.add_host({.name = "host-0", .devices = 4}, executor_);
};

TEST_F(OwnersMemoryTest, ARepetitionThatIsAskedAgainTakesItsMemoryOnce) {
  executor_.devices = 4;
  const SessionId ann = controller_.programs().add("a", "ann", client_);
  const PlanId plan = compile(ann, controller_.allocate(ann, {4}).id);
  // Two of these lists are more than the owner may have.
  const auto list = std::make_shared<const EarlierSchedule>(EarlierSchedule::List(5000, 1.0));
  const RepeatRequest asked{.number = 1,
                            .plan = plan,
                            .steps = 1000,
                            .inputs = {},
                            .earlier = {{.input = 0, .schedule = list}},
                            .first = RunId((ann.value << 40) + 1)};
  reactor_->run([&] { controller_.repeat(ann, asked); });
  reactor_->run([&] { controller_.repeat(ann, asked); });
  EXPECT_EQ(controller_.programs().open(ann).repetition(plan).number, 1u);
}

TEST_F(OwnersMemoryTest, ProgramsBeyondAnOwnersMemoryAreRefusedAndReleasedOnesMakeRoom) {
  executor_.devices = 4;
  const SessionId ann = controller_.programs().add("a", "ann", client_),
                  bob = controller_.programs().add("b", "bob", client_);
  const SliceId anns = controller_.allocate(ann, {4}).id, bobs = controller_.allocate(bob, {4}).id;
  std::vector<PlanId> plans;
  std::optional<Error> refused;
  while (!refused && plans.size() < 1000) {
    try {
      plans.push_back(compile(ann, anns));
    } catch (const Error& error) {
      refused = error;
    }
  }
  ASSERT_TRUE(refused);
  EXPECT_GT(plans.size(), 3u);
  EXPECT_EQ(refused->kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(refused->what(), HasSubstr("compile: owner \"ann\" has"));
  EXPECT_THAT(refused->what(), HasSubstr("of the controller's memory: expected at most 64.0 KiB"));
  EXPECT_EQ(controller_.counts().plans, plans.size());
  compile(bob, bobs);
  controller_.path().release_plan(plans.back());
  compile(ann, anns);
  Quotas more;
  more.owners["ann"].controller_bytes = 1 << 20;
  controller_.tables().quotas.set(more);
  compile(ann, anns);
  controller_.session_closed(ann);
  EXPECT_EQ(controller_.tables().owner_use.used("ann", OwnerResource::kMemory), 0u);
}

// The test says which hosts' processes have ended.
class RestartTest : public ::testing::Test {
 protected:
  std::string add(FakeExecutor& peer, int64_t pid, const std::string& owner = "ada") {
    const HostId id =
        controller_.add_host({.name = "e", .process = {pid, 7}, .owner = owner}, peer);
    return controller_.tables().hosts.at(id).info.name;
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executors_[4];
  std::set<int64_t> ended_, unknown_;
  Controller controller_{*reactor_, {.has_ended = [this](const ProcessIdentity& process) {
                           if (unknown_.contains(process.pid)) return HasEnded::kUnknown;
                           return ended_.contains(process.pid) ? HasEnded::kYes : HasEnded::kNo;
                         }}};
};

TEST_F(RestartTest, AHostThatIsStartedAgainBeforeItsEndIsNoticedHasItsName) {
  EXPECT_EQ(add(executors_[0], 40), "e");
  ended_.insert(40);
  EXPECT_EQ(add(executors_[1], 41), "e");
  EXPECT_TRUE(executors_[0].hung_up);
  EXPECT_EQ(controller_.counts().hosts, 1u);
}

TEST_F(RestartTest, AHostOfWhichNobodyKnowsWhetherItHasEndedIsNotTakenForGone) {
  EXPECT_EQ(add(executors_[0], 40), "e");
  unknown_.insert(40);
  EXPECT_EQ(add(executors_[1], 41), "e-2");
  EXPECT_FALSE(executors_[0].hung_up);
  EXPECT_EQ(controller_.counts().hosts, 2u);
}

TEST_F(RestartTest, TwoLiveHostsOfOneNameGetTwoNamesAndKeepThemWhenTheyReturn) {
  EXPECT_EQ(add(executors_[0], 40), "e");
  EXPECT_EQ(add(executors_[1], 41), "e-2");
  EXPECT_FALSE(executors_[0].hung_up);
  ended_.insert(41);
  EXPECT_EQ(add(executors_[2], 42), "e-2");
  EXPECT_FALSE(executors_[0].hung_up);
  EXPECT_TRUE(executors_[1].hung_up);
}

TEST_F(RestartTest, ASecondHostOfAChosenNameIsRefusedNamingWhoHasIt) {
  const auto add_chosen = [&](FakeExecutor& peer, int64_t pid) {
    controller_.add_host(
        {.name = "h1", .process = {pid, 7}, .owner = "ada", .name_is_chosen = true}, peer);
  };
  add_chosen(executors_[0], 40);
  const Error refused = error_of([&] { add_chosen(executors_[1], 41); });
  EXPECT_EQ(refused.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(refused.what(), HasSubstr("executor \"h1\": the name is taken by a host that is "
                                        "there: process 40 of ada"));
  EXPECT_THAT(refused.what(), HasSubstr("choose another --name"));
  EXPECT_FALSE(executors_[0].hung_up);
  add_chosen(executors_[2], 40);  // The first host lost its connection, and registers again.
  EXPECT_TRUE(executors_[0].hung_up);
  ended_.insert(40);
  add_chosen(executors_[3], 42);
  EXPECT_TRUE(executors_[2].hung_up);
  EXPECT_EQ(controller_.counts().hosts, 1u);
}

TEST_F(RestartTest, AHostDoesNotReplaceOneOfAnotherOwner) {
  EXPECT_EQ(add(executors_[0], 40, "ada"), "e");
  ended_.insert(40);
  EXPECT_EQ(add(executors_[1], 41, "bob"), "e-2");
  EXPECT_FALSE(executors_[0].hung_up);
}

}  // namespace
}  // namespace gangway
