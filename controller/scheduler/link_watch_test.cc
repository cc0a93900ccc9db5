#include "controller/scheduler/link_watch.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>

#include "tests/support/test_controller.h"

namespace gangway::link_watch_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

// Four hosts of two devices, each of which writes to all others of a plan, unless a test says else.
class LinkWatchTest : public testing::Test {
 protected:
  LinkWatchTest() {
    for (uint32_t h = 0; h < 4; ++h) {
      executors_[h].writes_to = [](uint32_t self) {
        std::vector<uint32_t> others{0, 1, 2, 3};
        std::erase(others, self);
        return others;
      };
      hosts_.push_back(controller_.add_host(
          {.name = cat("host-", h), .devices = 2, .memory_bytes = 1000}, executors_[h]));
    }
    session_ = controller_.programs().add("tester", "ada", client_);
  }

  PlanId compile() {
    return reactor_->run([&] {
      const SliceId slice = controller_.allocate(session_, {8}).id;
      return controller_.compile(session_, doubled(Mesh{{{"data", 8}}}), {slice}, {2}).id;
    });
  }
  RunId submit(PlanId plan) {
    RunFrame run{.plan = plan, .run = RunId((session_.value << 40) + ++names_)};
    run.arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}};
    run.outputs = {ArrayId((session_.value << 40) + ++names_)};
    controller_.on_message(session_, run);
    return run.run;
  }
  void report(uint32_t by, uint32_t of) {
    controller_.on_message(hosts_[by], LinkBrokenFrame{cat("host-", of), "no answer"});
  }
  void judge() { controller_.tick(reactor_->clock().now_ns() + LinkWatch::kWindowMs * kMs); }
  // The hosts report the end of a run that they were asked to stop, which has their first name.
  void end_stopped_run() {
    for (uint32_t h = 0; h < 4; ++h) {
      const auto stops = executors_[h].all<CancelFrame>();
      ASSERT_EQ(stops.size(), 1u) << "host " << h;
      EXPECT_EQ(stops[0].error.kind(), ErrorKind::kUnavailable) << "devices must not wait";
      controller_.on_message(hosts_[h], RunDoneFrame{.run = stops[0].run, .error = stops[0].error});
    }
  }
  size_t lost() const {
    return static_cast<size_t>(std::ranges::count(executors_, true, &FakeExecutor::hung_up));
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executors_[4];
  FakeClient client_;
  Controller controller_{*reactor_};
  std::vector<HostId> hosts_;
  SessionId session_;
  uint64_t names_ = 0;
};

TEST_F(LinkWatchTest, TwoHostsThatNameEachOtherStayAndTheRunsBetweenThemFail) {
  const PlanId plan = compile();
  submit(plan);
  report(0, 1);
  report(1, 0);
  controller_.tick(reactor_->clock().now_ns());
  EXPECT_TRUE(executors_[0].all<CancelFrame>().empty()) << "others may report more";
  judge();
  end_stopped_run();
  ASSERT_EQ(client_.ended.size(), 1u);
  ASSERT_TRUE(client_.ended[0].error.has_value());
  EXPECT_THAT(client_.ended[0].error->what(),
              AllOf(HasSubstr("the link between hosts \"host-0\" and \"host-1\" is broken"),
                    HasSubstr("no answer")));
  EXPECT_EQ(lost(), 0u);
  for (const FakeExecutor& host : executors_)
    EXPECT_EQ(host.all<UninstallFrame>().size(), 1u) << "something may be missing there";
  submit(plan);
  ASSERT_EQ(client_.ended.size(), 2u);
  EXPECT_THAT(client_.ended[1].error->what(), HasSubstr("is broken"));
}

TEST_F(LinkWatchTest, ALinkThatBreaksOneWayIsBroken) {
  submit(compile());
  report(2, 3);
  judge();
  end_stopped_run();
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("\"host-2\" and \"host-3\" is broken"));
  EXPECT_EQ(lost(), 0u);
}

TEST_F(LinkWatchTest, TheHostThatMostOthersNameIsDropped) {
  submit(compile());
  for (uint32_t other = 0; other < 3; ++other) {
    report(other, 3);
    report(3, other);
  }
  judge();
  EXPECT_EQ(lost(), 1u);
  EXPECT_TRUE(executors_[3].hung_up);
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_THAT(client_.ended[0].error->what(),
              HasSubstr("host \"host-3\" is gone: 3 hosts do not reach its memory any more"));
  EXPECT_EQ(controller_.counts().hosts, 3u);
}

TEST_F(LinkWatchTest, WhereTwoHostsAreNamedAlikeNoneIsDropped) {
  submit(compile());
  for (const uint32_t named : {2u, 3u}) {
    report(0, named);
    report(1, named);
  }
  judge();
  end_stopped_run();
  EXPECT_EQ(lost(), 0u);
  EXPECT_EQ(client_.ended.size(), 1u);
}

TEST_F(LinkWatchTest, ProgramsThatDoNotUseTheLinkGoOn) {
  for (FakeExecutor& host : executors_)
    host.writes_to = [](uint32_t self) { return std::vector<uint32_t>{self ^ 1}; };
  submit(compile());
  const auto number_of = [this](uint32_t self) {
    return static_cast<uint32_t>(std::ranges::find(executors_, self, &FakeExecutor::self) -
                                 std::begin(executors_));
  };
  report(number_of(0), number_of(2));
  judge();
  EXPECT_TRUE(client_.ended.empty());
  EXPECT_TRUE(executors_[0].all<CancelFrame>().empty());
}

TEST_F(LinkWatchTest, ReportsAboutOneselfOrAboutNobodyMeanNothing) {
  submit(compile());
  report(0, 0);
  report(0, 17);
  judge();
  EXPECT_TRUE(client_.ended.empty());
  EXPECT_EQ(lost(), 0u);
}

}  // namespace
}  // namespace gangway::link_watch_test
