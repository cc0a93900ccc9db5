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

constexpr uint32_t kHosts = 6;

// Hosts of two devices, each of which writes to all others of a plan, unless a test says else.
class LinkWatchTest : public testing::Test {
 protected:
  LinkWatchTest() {
    for (uint32_t h = 0; h < kHosts; ++h) {
      executors_[h].writes_to = [](uint32_t self) {
        std::vector<uint32_t> others{0, 1, 2, 3, 4, 5};
        std::erase(others, self);
        return others;
      };
      hosts_.push_back(controller_.add_host(
          {.name = cat("host-", h), .devices = 2, .memory_bytes = 1000}, executors_[h]));
    }
    session_ = controller_.programs().add("tester", "ada", client_);
  }

  SliceId allocate(uint32_t devices) {
    return reactor_->run([&] { return controller_.allocate(session_, {devices}).id; });
  }
  PlanId compile(SliceId slice, uint32_t devices = 2 * kHosts) {
    return reactor_->run([&] {
      return controller_.compile(session_, doubled(Mesh{{{"data", devices}}}), {slice}, {2}).id;
    });
  }
  PlanId compile() { return compile(allocate(2 * kHosts)); }
  void submit(PlanId plan) {
    RunFrame run{.plan = plan, .run = RunId((session_.value << 40) + ++names_)};
    run.arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}};
    run.outputs = {ArrayId((session_.value << 40) + ++names_)};
    controller_.on_message(session_, run);
  }
  PlanRecord& record(PlanId plan) { return *controller_.tables().plans.find(plan, session_); }
  // The index of a host in the plan.
  uint32_t index_of(PlanId plan, uint32_t host) {
    const std::vector<HostId>& all = record(plan).hosts;
    return static_cast<uint32_t>(std::ranges::find(all, hosts_[host]) - all.begin());
  }
  void report(PlanId plan, uint32_t by, uint32_t of) {
    controller_.on_message(hosts_[by],
                           LinkBrokenFrame{record(plan).on_hosts, index_of(plan, of), "no answer"});
  }
  int64_t later_ns() const { return reactor_->clock().now_ns() + LinkWatch::kWindowMs * kMs; }
  void speak(uint32_t host) { controller_.on_message(hosts_[host], HeartbeatFrame{}); }
  // The time comes, and then all hosts speak.
  void judge() {
    controller_.tick(later_ns());
    for (uint32_t h = 0; h < kHosts; ++h) speak(h);
    controller_.tick(later_ns());
  }
  // The hosts report the end of the run that they were asked last to stop.
  void end_stopped_run(size_t stopped = 1) {
    for (uint32_t h = 0; h < kHosts; ++h) {
      const auto stops = executors_[h].all<CancelFrame>();
      ASSERT_EQ(stops.size(), stopped) << "host " << h;
      const CancelFrame& last = stops.back();
      EXPECT_EQ(last.error.kind(), ErrorKind::kUnavailable) << "devices must not wait";
      controller_.on_message(hosts_[h], RunDoneFrame{.run = last.run, .error = last.error});
    }
  }
  size_t lost() const {
    return static_cast<size_t>(std::ranges::count(executors_, true, &FakeExecutor::hung_up));
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executors_[kHosts];
  FakeClient client_;
  Controller controller_{*reactor_};
  std::vector<HostId> hosts_;
  SessionId session_;
  uint64_t names_ = 0;
};

TEST_F(LinkWatchTest, TwoHostsThatNameEachOtherStayAndTheRunsBetweenThemFail) {
  const PlanId plan = compile();
  submit(plan);
  report(plan, 0, 1);
  report(plan, 1, 0);
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
  const PlanId plan = compile();
  submit(plan);
  report(plan, 2, 3);
  judge();
  end_stopped_run();
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("\"host-2\" and \"host-3\" is broken"));
  EXPECT_EQ(lost(), 0u);
}

TEST_F(LinkWatchTest, AHostThatMostOthersNameIsDroppedAndDrains) {
  const PlanId plan = compile();
  submit(plan);
  for (const uint32_t other : {0u, 1u, 2u, 4u}) {
    report(plan, other, 3);
    report(plan, 3, other);
  }
  judge();
  EXPECT_EQ(lost(), 1u);
  EXPECT_TRUE(executors_[3].hung_up);
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_THAT(client_.ended[0].error->what(),
              AllOf(HasSubstr("host \"host-3\" is gone: 4 of the 5 hosts that write to its memory"),
                    HasSubstr("`gangway undrain host-3`")));
  FakeExecutor again;
  HostTable& hosts = controller_.tables().hosts;
  const HostId back =
      controller_.add_host({.name = "host-3", .devices = 2, .memory_bytes = 1000}, again);
  EXPECT_EQ(hosts.at(back).info.name, "host-3");
  EXPECT_FALSE(hosts.takes_slices(hosts.at(back))) << "its next programs would fail, too";
  hosts.set_draining("host-3", false);
  EXPECT_TRUE(hosts.takes_slices(hosts.at(back)));
}

TEST_F(LinkWatchTest, HostsThatAreNamedAlikeByMostAreDroppedOneAfterAnother) {
  const PlanId plan = compile();
  submit(plan);
  for (const uint32_t by : {0u, 1u, 2u}) {
    report(plan, by, 4);
    report(plan, by, 5);
  }
  judge();
  EXPECT_EQ(lost(), 2u);
  EXPECT_EQ(client_.ended.size(), 1u);
}

// Host 5 is named by five hosts. Host 4 is named by three of five, one of which is host 5.
TEST_F(LinkWatchTest, AHostThatNoMajorityNamesWithoutTheDroppedOnesStays) {
  const PlanId plan = compile();
  submit(plan);
  for (const uint32_t by : {0u, 1u, 2u, 3u, 4u}) report(plan, by, 5);
  for (const uint32_t by : {0u, 1u, 5u}) report(plan, by, 4);
  judge();
  EXPECT_TRUE(executors_[5].hung_up);
  EXPECT_EQ(lost(), 1u);
}

TEST_F(LinkWatchTest, TwoHostsOfManyDoNotEndAnother) {
  const PlanId plan = compile();
  submit(plan);
  report(plan, 0, 5);
  report(plan, 1, 5);
  judge();
  end_stopped_run();
  EXPECT_EQ(lost(), 0u) << "three others reach it";
  EXPECT_EQ(client_.ended.size(), 1u);
}

TEST_F(LinkWatchTest, AReportStillCountsWhenOthersComeForTheNextProgram) {
  const SliceId slice = allocate(2 * kHosts);
  for (const uint32_t by : {0u, 1u}) {
    const PlanId plan = compile(slice);
    submit(plan);
    report(plan, by, 5);
    judge();
    end_stopped_run(by + 1);
    EXPECT_EQ(lost(), 0u);
  }
  const PlanId plan = compile(slice);
  submit(plan);
  report(plan, 2, 5);
  judge();
  EXPECT_TRUE(executors_[5].hung_up) << "three of five have named it";
  EXPECT_EQ(lost(), 1u);
}

TEST_F(LinkWatchTest, ReportsCountNoMoreAfterTenSeconds) {
  const SliceId slice = allocate(2 * kHosts);
  for (const uint32_t by : {0u, 1u}) {
    const PlanId plan = compile(slice);
    submit(plan);
    report(plan, by, 5);
    judge();
    end_stopped_run(by + 1);
  }
  const PlanId plan = compile(slice);
  submit(plan);
  controller_.tick(later_ns() + LinkWatch::kCountsMs * kMs);
  report(plan, 2, 5);
  judge();
  EXPECT_EQ(lost(), 0u);
}

TEST_F(LinkWatchTest, AReportOfASilentHostWaitsUntilItSpeaks) {
  const PlanId plan = compile();
  submit(plan);
  report(plan, 0, 3);
  speak(3);  // That may have been under way.
  controller_.tick(later_ns());
  for (const uint32_t other : {0u, 1u, 2u, 4u, 5u}) speak(other);
  controller_.tick(later_ns());
  EXPECT_TRUE(executors_[0].all<CancelFrame>().empty());
  speak(3);
  controller_.tick(later_ns());
  end_stopped_run();
  EXPECT_EQ(lost(), 0u);
}

TEST_F(LinkWatchTest, AHostThatIsLostWhileAReportWaitsEndsTheRunAsALostHost) {
  const PlanId plan = compile();
  submit(plan);
  report(plan, 0, 3);
  controller_.tick(later_ns());
  controller_.host_lost(hosts_[3], Error(ErrorKind::kUnavailable, "it has said nothing"));
  judge();
  ASSERT_EQ(client_.ended.size(), 1u);
  EXPECT_THAT(client_.ended[0].error->what(), HasSubstr("host \"host-3\" is gone"));
}

TEST_F(LinkWatchTest, AHostThatCameBackIsNotNamedByReportsOfItsEarlierSelf) {
  const PlanId plan = compile();
  submit(plan);
  controller_.host_lost(hosts_[3], Error(ErrorKind::kUnavailable, "its connection ended"));
  FakeExecutor again;
  const HostId back =
      controller_.add_host({.name = "host-3", .devices = 2, .memory_bytes = 1000}, again);
  for (const uint32_t by : {0u, 1u, 2u, 4u}) report(plan, by, 3);
  controller_.tick(later_ns());
  controller_.on_message(back, HeartbeatFrame{});
  judge();
  EXPECT_FALSE(again.hung_up);
}

TEST_F(LinkWatchTest, ProgramsThatDoNotUseTheLinkGoOn) {
  for (FakeExecutor& host : executors_)
    host.writes_to = [](uint32_t self) { return std::vector<uint32_t>{self ^ 1}; };
  const PlanId plan = compile(allocate(4), 4), other = compile(allocate(4), 4);
  ASSERT_NE(record(plan).hosts, record(other).hosts);
  submit(plan);
  submit(other);
  const HostId by = record(plan).hosts[0];
  controller_.on_message(by, LinkBrokenFrame{record(plan).on_hosts, 1, "no answer"});
  judge();
  EXPECT_TRUE(record(plan).broken);
  EXPECT_FALSE(record(other).broken);
  EXPECT_EQ(lost(), 0u);
}

TEST_F(LinkWatchTest, ReportsAboutOneselfOrAboutNobodyMeanNothing) {
  for (FakeExecutor& host : executors_)
    host.writes_to = [](uint32_t self) { return std::vector<uint32_t>{self ^ 1}; };
  const PlanId plan = compile();
  submit(plan);
  const PlanId on_hosts = record(plan).on_hosts;
  const HostId first = record(plan).hosts[0];
  for (const LinkBrokenFrame& report :
       {LinkBrokenFrame{on_hosts, 0, "oneself"}, LinkBrokenFrame{on_hosts, 2, "not written to"},
        LinkBrokenFrame{on_hosts, 17, "beyond the plan"},
        LinkBrokenFrame{PlanId(99), 1, "no plan"}})
    controller_.on_message(first, report);
  judge();
  EXPECT_TRUE(client_.ended.empty());
  EXPECT_FALSE(record(plan).broken);
  EXPECT_EQ(lost(), 0u);
}

TEST_F(LinkWatchTest, ANewReportWakesTheControllerAndARepeatedOneDoesNot) {
  const PlanId plan = compile();
  int woken = 0;
  const auto wait = [&] {
    controller_.path().deadline_moved().wait("for the next time limit");
    ++woken;
  };
  std::vector<Fiber> waits;
  for (int times = 0; times < 2; ++times) {
    waits.push_back(reactor_->spawn("watch", wait));
    reactor_->run_ready();
    report(plan, 0, 1);
    reactor_->run_ready();
  }
  EXPECT_EQ(woken, 1);
  controller_.path().deadline_moved().wake_all();
  for (Fiber& fiber : waits) fiber.join();
}

}  // namespace
}  // namespace gangway::link_watch_test
