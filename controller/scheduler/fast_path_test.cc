#include "controller/scheduler/fast_path.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// y = x + x on the first slice of two devices, z = y + y on the second.
Program twice() {
  const Mesh mesh{{{"data", 2}}};
  ProgramBuilder b("twice", mesh);
  Builder f("add", mesh);
  const Value x = f.parameter("x", f32());
  f.result("y", x + x);
  const auto add = std::make_shared<const Function>(f.build());
  const ProgramValue y = b.call(0, "first", add, {b.input_on(0, "x", f32())})[0];
  const uint32_t second = b.slice("second", mesh);
  b.output_of("z", b.call(second, "then", add, {b.transfer(y, second)})[0]);
  return b.build();
}

class FastPathTest : public ControllerTest {
 protected:
  PlanId compile_twice(Dispatch dispatch, bool on_one_device = false) {
    return reactor_->run([&] {
      const SliceId first = controller_.allocate(session_, 2).id;
      const SliceId second = on_one_device ? first : controller_.allocate(session_, 2).id;
      return controller_.compile(session_, twice(), {first, second}, {2, dispatch}).id;
    });
  }
  // Ranges that the host was granted, as "slice:first-last".
  std::vector<std::string> granted(int host) const {
    std::vector<std::string> ranges;
    for (const GrantFrame& grant : executor_[host].all<GrantFrame>()) {
      for (const GrantRange& range : grant.ranges) {
        ranges.push_back(cat(range.slice == kEverySlice ? "*" : cat(range.slice), ":", range.first,
                             "-", range.first + range.count - 1));
      }
    }
    return ranges;
  }
  void progress(size_t host, uint64_t run, uint32_t slice, uint32_t end) {
    controller_.on_message(
        hosts_[host],
        ProgressFrame{{{.run = RunId(run), .slice = slice, .position_end = end, .busy_ns = 1000}}});
  }
};

TEST_F(FastPathTest, AProgramThatIsDispatchedInParallelIsGrantedWholeAndNobodyIsWarned) {
  submit(session_, compile_twice(Dispatch::kParallel));
  EXPECT_THAT(granted(0), ElementsAre("*:0-3"));
  EXPECT_THAT(client_.warnings(), IsEmpty());
}

// Two programs on the same devices, and the ranges that the first one's run is granted.
std::vector<GrantRange> granted_beside_another(bool overlay_memory) {
  const auto reactor = Reactor::make_simulated();
  FakeExecutor executor;
  executor.devices = 4;
  FakeClient clients[2];
  Controller controller(*reactor, {.overlay_memory = overlay_memory});
  controller.add_host({.name = "host", .devices = 4, .memory_bytes = 1000}, executor);
  PlanId plans[2];
  SessionId sessions[2];
  for (int i = 0; i < 2; ++i) {
    sessions[i] = controller.programs().add(cat("program-", i), "ada", clients[i]);
    plans[i] = reactor->run([&] {
      const SliceId first = controller.allocate(sessions[i], {2}).id;
      const SliceId second = controller.allocate(sessions[i], {2}).id;
      return controller.compile(sessions[i], twice(), {first, second}, {2}).id;
    });
  }
  const uint64_t names = sessions[0].value << 40;
  controller.on_message(sessions[0],
                        RunFrame{.plan = plans[0],
                                 .run = RunId(names + 1),
                                 .arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}},
                                 .outputs = {ArrayId(names + 2)}});
  std::vector<GrantRange> ranges;
  for (const GrantFrame& grant : executor.all<GrantFrame>())
    ranges.insert(ranges.end(), grant.ranges.begin(), grant.ranges.end());
  return ranges;
}

// Granted in part, two runs could each be in the middle on devices that the other needs.
TEST(OverlaidGrantsTest, ARunWhoseTemporariesLieOverThoseOfOthersIsGrantedWhole) {
  const std::vector<GrantRange> apart = granted_beside_another(false),
                                overlaid = granted_beside_another(true);
  ASSERT_EQ(overlaid.size(), 1u);
  EXPECT_EQ(overlaid[0].slice, kEverySlice);
  EXPECT_EQ(overlaid[0].count, 4u);
  ASSERT_EQ(apart.size(), 1u) << "its first section, since others share its devices";
  EXPECT_EQ(apart[0].slice, 0u);
}

TEST_F(FastPathTest, DispatchedSequentiallyANodeIsGrantedOnceTheOneBeforeItHasEnded) {
  const PlanId plan = compile_twice(Dispatch::kSequential);
  submit(session_, plan);
  submit(session_, plan);
  EXPECT_THAT(granted(0), ElementsAre("0:0-1")) << "the call and its send";
  progress(0, 1, 0, 1);
  EXPECT_THAT(granted(1), IsEmpty()) << "what it waits for is not sent yet";
  progress(0, 1, 0, 2);
  EXPECT_THAT(granted(1), ElementsAre("1:0-1"));
  finish(0, RunId(1));
  EXPECT_THAT(granted(0), ElementsAre("0:0-1")) << "the run before it has not ended";
  finish(1, RunId(1));
  EXPECT_THAT(granted(0), ElementsAre("0:0-1", "0:0-1"));
  EXPECT_THAT(granted(1), ElementsAre("1:0-1")) << "a slice's grants go to its own hosts";
}

TEST_F(FastPathTest, AClientIsWarnedOnceThatAProgramIsDispatchedSequentiallyAndWhy) {
  const PlanId plan = compile_twice(Dispatch::kSequential);
  for (int i = 0; i < 4; ++i) submit(session_, plan);
  EXPECT_THAT(client_.warnings(),
              ElementsAre(AllOf(HasSubstr("program \"twice\" is dispatched sequentially"),
                                HasSubstr("CompileOptions::dispatch"))));
}

TEST_F(FastPathTest, TheControllersLogSaysOnceWhichProgramLostTheFastPathAndWhy) {
  const TempDir dir;
  const std::string file = (dir.path() / "log").string();
  {
    const Logs logs({.levels = "warn", .file = file});
    FakeExecutor executor;
    FakeClient client;
    Controller controller(*reactor_, {.log = logs.module("controller")});
    controller.add_host({.name = "host", .devices = 4, .memory_bytes = 1000}, executor);
    const SessionId session = controller.programs().add("trainer", "ada", client);
    reactor_->run([&] {
      const SliceId one = controller.allocate(session, 2).id;
      const SliceId two = controller.allocate(session, 2).id;
      controller.compile(session, twice(), {one, two}, {2, Dispatch::kSequential});
    });
  }
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  const std::string line = "program \"twice\" is dispatched sequentially";
  EXPECT_THAT(text.str(),
              AllOf(HasSubstr(line), HasSubstr("trainer"), HasSubstr("CompileOptions::dispatch")));
  EXPECT_EQ(text.str().find(line), text.str().rfind(line));
}

// A device has 1000 bytes, and gives out three outputs besides the plan's own two.
TEST_F(FastPathTest, AClientIsWarnedOnceThatRunsWaitForMemory) {
  const PlanId plan = compile(session_, 2, 2);
  for (uint64_t run = 1; run <= 5; ++run) {
    submit(session_, plan);
    if (run < 5) finish(0, RunId(run));
  }
  EXPECT_THAT(client_.warnings(), IsEmpty());
  for (uint64_t run = 6; run <= 8; ++run) {
    controller_.on_message(session_, FreeFrame{{last_output_}});  // Freed with the run before.
    submit(session_, plan);
    EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), run - 1) << "it waits for memory";
    finish(0, RunId(run - 1));
    EXPECT_EQ(executor_[0].all<PrepareFrame>().size(), run);
  }
  EXPECT_THAT(client_.warnings(),
              ElementsAre(AllOf(HasSubstr("program \"doubled\" waits for memory"),
                                HasSubstr("the results of 5 runs"),
                                HasSubstr("set aside for those of 2"))));
}

// Nobody has looked yet whether there is memory for that run.
TEST_F(FastPathTest, TheClientOfARunThatWaitsBehindOneThatIsShortOfMemoryIsNotTold) {
  const PlanId other = compile(session_, 2, 4), plan = compile(session_, 2, 2);
  for (uint64_t run = 1; run <= 2; ++run) {
    submit(session_, other);
    finish_everywhere(run);
  }
  for (uint64_t run = 3; run <= 7; ++run) {
    submit(session_, plan);
    if (run < 7) finish(0, RunId(run));
  }
  controller_.on_message(session_, FreeFrame{{last_output_}});
  submit(session_, plan);
  ASSERT_EQ(client_.warnings().size(), 1u) << "it is short of memory";
  submit(session_, other);
  EXPECT_EQ(executor_[1].all<PrepareFrame>().size(), 2u) << "it waits behind that run";
  EXPECT_EQ(client_.warnings().size(), 1u);
}

TEST_F(FastPathTest, SequentialDispatchIsRefusedWhereADeviceIsInTwoSlices) {
  try {
    compile_twice(Dispatch::kSequential, true);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnimplemented);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("\"twice\" can't be dispatched sequentially"),
                                    HasSubstr("host-0/device 0 is in two of its slices")));
  }
  EXPECT_EQ(controller_.counts().plans, 0u);
  compile_twice(Dispatch::kParallel, true);
}

TEST_F(FastPathTest, SequentialDispatchIsRefusedOnCardsWhichTellTheEndOfWholeRunsOnly) {
  FakeExecutor cards;
  controller_.host_lost(hosts_[0], Error(ErrorKind::kUnavailable, "gone"));
  controller_.host_lost(hosts_[1], Error(ErrorKind::kUnavailable, "gone"));
  controller_.add_host({.name = "host-2", .devices = 4, .memory_bytes = 1000, .kind = "cuda"},
                       cards);
  try {
    compile_twice(Dispatch::kSequential);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnimplemented);
    EXPECT_THAT(error.what(), HasSubstr("the cards of host \"host-2\""));
  }
}

}  // namespace
}  // namespace gangway
