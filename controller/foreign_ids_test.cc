// Ids are small numbers that a client can guess. These tests send frames and calls with ids of
// another client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/os/user.h"
#include "tests/support/error_of.h"
#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::Not;

// ada has a plan, an array, and a run under way; eve has a plan of her own.
class ForeignIdsTest : public ControllerTest {
 protected:
  ForeignIdsTest() {
    plan_ = compile(session_);
    adas_slice_ = slice_;
    run_ = submit(session_, plan_);
    finish_everywhere(1);
    array_ = last_output_;
    running_ = submit(session_, plan_);
    eve_ = controller_.programs().add("evil", "eve", evil_);
    own_plan_ = compile(eve_);
  }

  RunFrame run_of(PlanId plan, RunId run, ArrayId output) const {
    RunFrame frame{.plan = plan, .run = run};
    frame.arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}};
    frame.outputs = {output};
    return frame;
  }

  // Each frame names something of ada's, and is right otherwise.
  std::vector<Message> frames() const {
    const auto own = [this](uint64_t n) { return (eve_.value << 40) + n; };
    RunFrame argument = run_of(own_plan_, RunId(own(1)), ArrayId(own(2)));
    argument.arguments = {{.input = 0, .array = array_}};
    const StateScope scope{adas_slice_.value};
    return {
        run_of(plan_, RunId(own(3)), ArrayId(own(4))),
        argument,
        run_of(own_plan_, RunId(own(5)), array_),
        run_of(own_plan_, RunId(own(6)), ArrayId((session_.value << 40) + 999)),
        CancelFrame{running_, Error(ErrorKind::kCancelled, "stop")},
        FreeFrame{{array_, last_output_}},
        ReleaseFrame{{adas_slice_.value, plan_.value}},
        HostTransferFrame{.request = 1,
                          .kind = HostTransferKind::kGet,
                          .at = {.segment = {.bytes = 4}, .bytes = 4},
                          .array = array_},
        HostTransferFrame{
            .request = 2, .kind = HostTransferKind::kPut, .array = ArrayId(own(7)), .plan = plan_},
        HostTransferFrame{
            .request = 3, .kind = HostTransferKind::kPut, .array = array_, .plan = own_plan_},
        HostTransferFrame{
            .request = 4, .kind = HostTransferKind::kReadState, .scope = scope, .name = "w"},
        HostTransferFrame{
            .request = 5, .kind = HostTransferKind::kWriteState, .scope = scope, .name = "w"}};
  }
  size_t frames_at_hosts() const {
    return executor_[0].received.size() + executor_[1].received.size();
  }

  PlanId plan_, own_plan_;
  SliceId adas_slice_;
  RunId run_, running_;
  ArrayId array_;
  FakeClient evil_;
  SessionId eve_;
};

TEST_F(ForeignIdsTest, FramesWithForeignIdsReachNoHostAndRevealNothing) {
  const std::vector<Message> all = frames();
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t hosts = frames_at_hosts();
    evil_.received.clear();
    controller_.on_message(eve_, all[i]);
    EXPECT_EQ(frames_at_hosts(), hosts) << "frame " << i;
    const bool is_silent = std::holds_alternative<CancelFrame>(all[i]) ||
                           std::holds_alternative<FreeFrame>(all[i]) ||
                           std::holds_alternative<ReleaseFrame>(all[i]);
    ASSERT_EQ(evil_.received.size(), is_silent ? 0u : 1u) << "frame " << i;
    if (is_silent) continue;
    const auto* run = std::get_if<RunDoneFrame>(&evil_.received[0]);
    const auto* transfer = std::get_if<HostTransferDoneFrame>(&evil_.received[0]);
    ASSERT_TRUE(run != nullptr || transfer != nullptr) << "frame " << i;
    const std::optional<Error>& error = run != nullptr ? run->error : transfer->error;
    ASSERT_TRUE(error) << "frame " << i;
    EXPECT_EQ(error->kind(), ErrorKind::kInvalid) << "frame " << i;
    EXPECT_THAT(error->what(), AllOf(Not(HasSubstr("tester")), Not(HasSubstr("ada"))))
        << "frame " << i;
  }
}

TEST_F(ForeignIdsTest, FramesThatNameAnotherOwnersObjectsDoNotDisturbThem) {
  for (const Message& frame : frames()) controller_.on_message(eve_, frame);
  controller_.session_closed(eve_);
  const ControllerCounts left = controller_.counts();
  EXPECT_EQ(left.clients + left.slices + left.plans + left.arrays + left.runs + left.transfers,
            1u + 1u + 1u + 2u + 1u + 0u);
  finish_everywhere(2);
  ASSERT_EQ(client_.ended.size(), 2u);
  EXPECT_FALSE(client_.ended[1].error);
  controller_.on_message(session_, HostTransferFrame{.request = 9,
                                                     .kind = HostTransferKind::kGet,
                                                     .at = {.segment = {.bytes = 4}, .bytes = 4},
                                                     .array = array_});
  EXPECT_EQ(
      executor_[0].all<HostTransferFrame>().size() + executor_[1].all<HostTransferFrame>().size(),
      1u);
}

TEST_F(ForeignIdsTest, AProgramIsNotCompiledOnAnothersSlice) {
  const Error error = error_of([&] {
    reactor_->run(
        [&] { controller_.compile(eve_, doubled(Mesh{{{"data", 4}}}), {adas_slice_}, {2}); });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.what(), HasSubstr("slice"));
}

// Hosts let the programs of other users read less (executor/sources/data_source.h).
TEST_F(ForeignIdsTest, HostsAreToldWhetherAProgramIsOfWhoRunsThem) {
  EXPECT_FALSE(executor_[0].installed_of.is_operator);
  FakeClient own;
  const SessionId operators = controller_.programs().add("own", own_user_name(), own);
  compile(operators);
  EXPECT_TRUE(executor_[0].installed_of.is_operator);
}

}  // namespace
}  // namespace gangway
