#include <gmock/gmock.h>

#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using AdmissionTest = ControllerTest;

TEST_F(AdmissionTest, TheBytesOfStatesAreHeldUntilTheirSliceIsReleased) {
  const auto reserved = [this] { return controller_.tables().hosts.at(hosts_[0]).reserved[0]; };
  for (FakeExecutor& executor : executor_) {
    executor.need_bytes = 100;
    executor.state_bytes = 300;
  }
  const PlanId first = compile(session_);
  EXPECT_EQ(reserved(), 400);
  controller_.path().release_plan(first);
  EXPECT_EQ(reserved(), 300) << "the next program on the slice finds its states there";
  controller_.tables().slices.release(slice_);
  EXPECT_EQ(reserved(), 0);
  EXPECT_EQ(executor_[0].all<FreeScopeFrame>().size(), 1u);
}

TEST_F(AdmissionTest, AProgramWhoseInitialiserFailsHoldsNoMemoryAndLeavesNoState) {
  for (FakeExecutor& executor : executor_) executor.state_bytes = 300;
  executor_[1].commit.emplace();
  Fiber fiber = compiling(session_);
  executor_[1].commit->fail(Error(ErrorKind::kInvalid, "its initialiser failed"));
  reactor_->run_ready();
  ASSERT_TRUE(compile_failed_);
  EXPECT_EQ(controller_.tables().hosts.at(hosts_[0]).reserved[0], 0);
  for (FakeExecutor& executor : executor_)
    EXPECT_THAT(executor.all<UninstallFrame>(), ElementsAre(UninstallFrame{PlanId(1), true}));
}

TEST_F(AdmissionTest, ProgramsOfASliceAreInstalledOneAfterAnother) {
  for (FakeExecutor& executor : executor_) executor.state_bytes = 300;
  executor_[1].commit.emplace();
  Fiber first = compiling(session_);
  Fiber second = reactor_->spawn("second", [&] {
    controller_.compile(session_, doubled(Mesh{{{"data", 4}}}), {slice_}, {2});
  });
  reactor_->run_ready();
  const auto reserved = [this] { return controller_.tables().hosts.at(hosts_[0]).reserved[0]; };
  EXPECT_EQ(reserved(), 300) << "it would share states that are not filled yet";
  executor_[1].commit->set();
  reactor_->run_ready();
  EXPECT_FALSE(compile_failed_);
  EXPECT_EQ(reserved(), 600);
}

TEST_F(AdmissionTest, OutputsThatAreKeptRunOutOfMemoryByNameAndNotByWaiting) {
  const PlanId plan = compile(session_, 1);
  size_t overloaded = 0;
  for (uint64_t i = 1; i <= 260 && overloaded == 0; ++i) {  // 4 bytes each, 1000 on a device.
    submit(session_, plan);
    if (!client_.ended.empty() && client_.ended.back().error) {
      EXPECT_EQ(client_.ended.back().error->kind(), ErrorKind::kOverloaded);
      EXPECT_THAT(client_.ended.back().error->what(), HasSubstr("client 1 of ada holds"));
      EXPECT_THAT(client_.ended.back().error->what(), HasSubstr("of 1000 B are free: 24 B short"));
      EXPECT_THAT(client_.ended.back().error->hint(),
                  HasSubstr("the outputs of 4 runs of this program are kept or under way"));
      ++overloaded;
    }
    finish(0, RunId(i));
    finish(1, RunId(i));
  }
  EXPECT_EQ(overloaded, 1u);
}

TEST_F(AdmissionTest, AProgramThatDoesNotFitIsRefusedAndLeavesNothing) {
  executor_[1].need_bytes = 2000;
  try {
    compile(session_);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << "it never will";
    EXPECT_THAT(error.what(), HasSubstr("host-1/device 0"));
  }
  EXPECT_EQ(controller_.counts().plans, 0u);
  EXPECT_EQ(controller_.tables().hosts.at(hosts_[0]).reserved[0], 0);
  EXPECT_EQ(executor_[0].all<UninstallFrame>().size(), 1u);
}

TEST_F(AdmissionTest, AnArrayIsFreedOnItsHostsWhenNeitherClientNorRunHoldsIt) {
  submit(session_, compile(session_));
  controller_.on_message(session_, FreeFrame{{last_output_}});
  EXPECT_TRUE(executor_[0].all<FreeFrame>().empty()) << "the run still makes it";
  finish(0, RunId(1));
  finish(1, RunId(1));
  ASSERT_EQ(executor_[0].all<FreeFrame>().size(), 1u);
  EXPECT_THAT(executor_[1].all<FreeFrame>()[0].arrays, ElementsAre(last_output_));
}

// A device gives memory out in units of 256 bytes: three fit into its 1000 besides the plan's own.
TEST_F(AdmissionTest, AdmittedRunsFitWhereADeviceAllocatesMemoryInUnits) {
  const PlanId plan = compile(session_, 1);
  for (uint64_t run = 1; run <= 5; ++run) {
    submit(session_, plan);
    finish_everywhere(run);
  }
  EXPECT_EQ(tickets(0).size(), 4u);
  ASSERT_EQ(client_.ended.size(), 5u);
  ASSERT_TRUE(client_.ended.back().error.has_value());
  EXPECT_EQ(client_.ended.back().error->kind(), ErrorKind::kOverloaded);
}

TEST_F(AdmissionTest, AnArrayThatIsPutCountsInUnitsToo) {
  const PlanId plan = compile(session_);
  HostTransferFrame put{.request = 1, .kind = HostTransferKind::kPut};
  put.at = {.segment = {.bytes = 4}, .bytes = 4};
  put.array = ArrayId((session_.value << 40) + 1);
  put.plan = plan;
  controller_.on_message(session_, put);
  EXPECT_EQ(controller_.tables().hosts.at(hosts_[0]).reserved[0], 256);
}

TEST_F(AdmissionTest, AHostIsToldToFreeAnArrayBeforeTheRunThatGetsItsMemory) {
  const PlanId plan = compile(session_, 1);
  for (uint64_t run = 1; run <= 4; ++run) {  // All memory is taken.
    submit(session_, plan);
    if (run < 4) finish_everywhere(run);
  }
  const ArrayId taken = last_output_;
  RunFrame reader{.plan = plan, .run = RunId((session_.value << 40) + 1000)};
  reader.arguments = {{.input = 0, .array = taken}};
  reader.outputs = {ArrayId((session_.value << 40) + 1001)};
  controller_.on_message(session_, reader);
  submit(session_, plan);
  controller_.on_message(session_, FreeFrame{{taken}});  // Only the run that reads it keeps it.
  finish_everywhere(4);
  ASSERT_FALSE(executor_[0].received.empty());
  EXPECT_TRUE(std::holds_alternative<GrantFrame>(executor_[0].received.back()));
  EXPECT_EQ(executor_[0].all<FreeFrame>().size(), 1u);
  EXPECT_EQ(tickets(0).size(), 5u)
      << "the reader was refused, and the run behind it got the memory";
}

// A device has 1000 bytes, and gives out three outputs besides the plan's own two.
TEST_F(AdmissionTest, ARunThatDoesNotFitHoldsUpOnlyThoseThatNeedMemoryOfTheSameDevices) {
  FakeClient others;
  const SessionId second = controller_.programs().add("second", "ada", others),
                  third = controller_.programs().add("third", "ada", others);
  const PlanId plan = compile(session_, 2, 2), elsewhere = compile(second, 1, 2),
               beside = compile(third, 1, 2);
  const auto prepared = [this](int host) { return executor_[host].all<PrepareFrame>().size(); };
  for (uint64_t run = 1; run <= 5; ++run) {
    submit(session_, plan);
    if (run < 5) finish(0, RunId(run));
  }
  controller_.on_message(session_, FreeFrame{{last_output_}});  // Freed with the fifth run.
  submit(session_, plan);
  EXPECT_EQ(prepared(0), 5u) << "the sixth waits for it";
  for (uint64_t run = 7; run <= 8; ++run) {
    submit(second, elsewhere);
    finish(1, RunId(run));
  }
  EXPECT_EQ(prepared(1), 2u) << "other devices";
  submit(third, beside);
  EXPECT_EQ(prepared(0), 6u) << "it needs no more memory";
  finish(0, RunId(9));
  submit(third, beside);
  EXPECT_EQ(prepared(0), 6u) << "it needs the memory that the sixth waits for";
  finish(0, RunId(5));
  EXPECT_EQ(prepared(0), 7u);
  EXPECT_EQ(executor_[0].all<PrepareFrame>().back().run.run, RunId(6));
}

}  // namespace
}  // namespace gangway
