#include "controller/service/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(ControllerTest, CertificatesSayWhenTheyEnd) {
  const Certificate own{{CertifiedKind::kHost, "node7", 1},
                        {.begins_s = 1, .ends_s = 1'800'000'000}};
  const std::string page = metrics_page(controller_, *reactor_, own);
  EXPECT_THAT(page,
              HasSubstr("gangway_certificate_end_seconds{process=\"controller\"} 1800000000"));
  EXPECT_THAT(metrics_page(controller_, *reactor_), Not(HasSubstr("1800000000")));
}

TEST_F(ControllerTest, TheMetricsOfAProgramAreThoseThatAreShownAndEndWithIt) {
  FakeClient client;
  const SessionId bobs = controller_.programs().add("a \"b\"\n\xff", "bob", client, {2.5, -3});
  controller_.programs().open(bobs).report({{"step", 7}, {"loss", 0.1}, {"epoch", 2}});
  controller_.programs().open(session_).report(
      {{"loss", std::numeric_limits<double>::quiet_NaN()}});
  submit(session_, compile(session_));
  const std::string page = metrics_page(controller_, *reactor_);
  const std::string of = "{owner=\"bob\",program=\"a \\\"b\\\"\\n\\\\xff\"} ";
  EXPECT_THAT(page, AllOf(HasSubstr("gangway_program_weight" + of + "2.5\n"),
                          HasSubstr("gangway_program_priority" + of + "-3\n"),
                          HasSubstr("gangway_program_step" + of + "7\n"),
                          HasSubstr("gangway_program_loss" + of + "0.1\n"),
                          HasSubstr("gangway_program_devices" + of + "0\n")));
  EXPECT_THAT(page, HasSubstr("gangway_program_reported{name=\"epoch\",owner=\"bob\""));
  EXPECT_THAT(page, Not(HasSubstr("gangway_program_tokens_per_second{")));
  const std::string mine = "{owner=\"ada\",program=\"tester\"} ";
  EXPECT_THAT(page, AllOf(HasSubstr("gangway_program_loss" + mine + "NaN\n"),
                          HasSubstr("gangway_program_devices" + mine + "4\n"),
                          HasSubstr("gangway_program_runs_in_flight" + mine + "1\n"),
                          HasSubstr("gangway_programs 2\n"),
                          HasSubstr("gangway_program_on_host{host=\"host-1\",owner=\"ada\"")));
  controller_.session_closed(session_);
  EXPECT_THAT(metrics_page(controller_, *reactor_), Not(HasSubstr("\"ada\"")));
}

TEST_F(ControllerTest, TheMetricsOfAHostEndWithItsName) {
  EXPECT_THAT(
      metrics_page(controller_, *reactor_),
      AllOf(HasSubstr("gangway_hosts 2\n"),
            HasSubstr("gangway_host_devices{host=\"host-1\",island=\"main\",kind=\"cpu\"} 2"),
            HasSubstr("gangway_host_device_memory_bytes{host=\"host-1\"} 1000\n"),
            HasSubstr("gangway_host_suspect{host=\"host-1\"} 0\n"),
            HasSubstr("gangway_host_draining{host=\"host-1\"} 0\n")));
  controller_.on_message(hosts_[1], HeartbeatFrame{.reactor_longest_ms = 12});
  EXPECT_THAT(metrics_page(controller_, *reactor_),
              AllOf(HasSubstr("gangway_reactor_longest_ms{process=\"controller\"} 0\n"),
                    HasSubstr("gangway_reactor_longest_ms{host=\"host-1\",process=\"executor\"} "
                              "12\n")));
  lose(1);
  EXPECT_THAT(
      metrics_page(controller_, *reactor_),
      AllOf(HasSubstr("gangway_hosts 1\n"), Not(HasSubstr("gangway_host_suspect{host=\"host-1\"")),
            HasSubstr("gangway_runs_done_total{host=\"host-1\"} 0\n")));
  controller_.tables().hosts.names().forget("host-1");
  EXPECT_THAT(metrics_page(controller_, *reactor_), Not(HasSubstr("host-1")));
}

TEST_F(ControllerTest, TheMetricsOfHostsThatComeUnderNewNamesAreFreedWithTheNames) {
  const auto come_and_go = [&](int count, const std::string& prefix) {
    for (int i = 0; i < count; ++i) {
      const HostId pod = controller_.add_host({.name = prefix + std::to_string(i)}, executor_[0]);
      controller_.host_lost(pod, Error(ErrorKind::kUnavailable, "its connection ended"));
    }
  };
  const size_t before = controller_.tables().metrics.series();
  come_and_go(1, "pod-");
  const size_t of_one = controller_.tables().metrics.series() - before;
  EXPECT_GT(of_one, 0u);
  come_and_go(HostNames::kNamesMax + 500, "pods-");
  EXPECT_LE(controller_.tables().metrics.series(), before + of_one * HostNames::kNamesMax);
  controller_.tick(reactor_->clock().now_ns() + HostNames::kForgetAfterNs);
  EXPECT_EQ(controller_.tables().metrics.series(), before);
}

}  // namespace
}  // namespace gangway
